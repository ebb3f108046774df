"""A node with some services, and people who ask it."""

from __future__ import annotations

from typing import Any

import pytest

from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.node.bus.descriptor import Trust
from handrail.node.bus.request import Caller
from handrail.node.capability_bus import CapabilityBus

NODE = "ed25519:here"


def somebody(name: str, trust: Trust = "member") -> Caller:
    return Caller(principal=Principal(name), trust=trust)


ANNA, BEN, TESS = somebody("ed25519:anna"), somebody("ed25519:ben"), somebody("ed25519:tess", "trusted")


async def ask(
    bus: CapabilityBus,
    capability: str,
    input: dict[str, Any] | None = None,
    params: dict[str, Any] | None = None,
    *,
    who: Caller | None = ANNA,
    call_id: str | None = None,
) -> dict[str, Any]:
    """The output of a call; None is the program itself."""
    body = {"params": params or {}, "input": input or {}}
    response = await bus.call(capability, (1, 0), body, caller=who, call_id=call_id)
    output: dict[str, Any] = response["output"]
    return output


async def refusal(*args: Any, **options: Any) -> BusError:
    """The error that the same call ends with."""
    with pytest.raises(BusError) as refused:
        await ask(*args, **options)
    return refused.value
