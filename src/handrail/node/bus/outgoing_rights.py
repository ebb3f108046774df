"""What goes along when a call leaves this process: for whom it is made, and with what right.

Our own token and signature speak for this program alone, never for those whom it calls for: they
bring a token of their own, and what they may do goes along as a bound.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec

from handrail.core.errors import BusError
from handrail.core.ports import Clock
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import NAME
from handrail.node.bus.interfaces import CallOptions
from handrail.node.tokens.identity import Identity


class CallSigner(NamedTuple):
    """Who signs, and for which community the call is; and for which node, where that is known."""

    identity: Identity
    community: str
    clock: Clock
    to: str = ""


class OutgoingRights(NamedTuple):
    signing: CallSigner | None
    token: Secret | None
    within: tuple[tuple[str, ...], ...]
    deadline: float | None


def outgoing_rights_of(
    capability: str, how: CallOptions, *, token: Secret | None, signing: CallSigner | None
) -> OutgoingRights:
    """Of a call that is made so, with our own token and key.

    Raises:
        BusError: No capability can be called that (`not_found`).
    """
    if not NAME.fullmatch(capability):
        raise BusError("not_found", f"there is no capability {capability[:100]!r}; names are namespace.verb")
    caller = how.get("caller")
    ours = caller is None or caller.trust == "self"
    given = how.get("token") or (None if caller is None else caller.token)
    scopes = None if caller is None else caller.principal.scopes
    return OutgoingRights(
        signing if ours else None,
        Secret(given) if given else (token if ours else None),
        (*how.get("within", ()), *(() if scopes is None else (scopes,))),
        _until(how),
    )


def timeout_ms(deadline: float | None) -> int | None:
    """What is left of the time, as the wires say it."""
    return None if deadline is None else max(0, round((deadline - asyncio.get_running_loop().time()) * 1000))


def encode_body(value: Any) -> bytes:
    """Raises:
    BusError: It has no JSON form (`bad_request`).
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise BusError("bad_request", f"the body has no JSON form: {error}") from error


def _until(how: CallOptions) -> float | None:
    seconds, deadline = how.get("timeout_seconds"), how.get("deadline")
    if seconds is None:
        return deadline
    ends = asyncio.get_running_loop().time() + seconds
    return ends if deadline is None else min(ends, deadline)
