"""The journal of a bus: everything that was done, and of very large bodies what they were."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from handrail.core.events import CallIntended, CallSettled
from handrail.node.bus.compact_journal import LARGE, CompactJournal
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.capability_bus import CapabilityBus
from handrail.testing.journal import MemoryJournal


async def kept(text: str) -> tuple[Any, Any]:
    """What the record has of the arguments and of the result of an echo."""

    async def echo(request: RouteRequest) -> dict[str, Any]:
        return {"output": request.input}

    journal = MemoryJournal()
    async with CapabilityBus(journal=journal) as bus:
        bus.register(CapabilityDescriptor(name="echo.say"), echo)
        assert (await bus.call("echo.say", (1, 0), {"input": {"text": text}}))["output"] == {"text": text}
    [asked] = [event.arguments for event in journal.events if isinstance(event, CallIntended)]
    [said] = [event.result for event in journal.events if isinstance(event, CallSettled)]
    return asked, None if said is None else said.content


async def test_what_is_of_usual_size_is_kept_whole() -> None:
    text = "x" * (LARGE - 100)
    asked, said = await kept(text)

    assert asked == {"input": {"text": text}}
    assert text in msgspec.json.encode(said).decode()


async def test_of_what_is_very_large_the_record_has_size_and_hash() -> None:
    text = "x" * LARGE
    asked, said = await kept(text)

    encoded = msgspec.json.encode({"input": {"text": text}})
    assert asked == {"omitted": {"bytes": len(encoded), "sha256": hashlib.sha256(encoded).hexdigest()}}
    assert said["omitted"]["bytes"] > LARGE


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_nothing_larger_than_the_limit_is_ever_kept(value: Any) -> None:
    try:
        size = len(msgspec.json.encode(value))
    except (ValueError, msgspec.MsgspecError):
        return
    thin = CompactJournal(MemoryJournal(), large=64)._value(value)
    assert (thin is value) == (size <= 64)


@pytest.mark.parametrize(
    "value", [["x"] * 50, {str(each): each for each in range(50)}, [[[]]] * 100, "ü" * 40, "\n" * 40]
)
def test_many_small_things_are_large_too(value: Any) -> None:
    assert CompactJournal(MemoryJournal(), large=64)._value(value) != value
