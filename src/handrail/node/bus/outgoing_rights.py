"""What goes along when a call leaves this process: for whom it is made, and with what right.

Our own token and signature speak for this program alone, never for those whom it calls for: they
bring a token of their own, and what they may do goes along as a bound.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from handrail.core.errors import BusError
from handrail.core.ids import NewId
from handrail.core.ports import Clock
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import NAME
from handrail.node.bus.request import CallTerms
from handrail.node.tokens.identity import Identity


class CallSigner(NamedTuple):
    """Signs calls: for a community, and for a node if that is known."""

    identity: Identity
    community: str
    clock: Clock
    to: str = ""


def outgoing_terms(capability: str, terms: CallTerms, *, token: Secret | None, new_id: NewId) -> CallTerms:
    """The terms of a call as they leave this process, with an id; `token` is our own.

    Raises:
        BusError: No capability can be called that (`not_found`).
    """
    if not NAME.fullmatch(capability):
        raise BusError("not_found", f"there is no capability {capability[:100]!r}; names are namespace.verb")
    caller = terms.caller
    scopes = caller.principal.scopes
    return replace(
        terms,
        token=terms.token or caller.token or (token if is_own(terms) else None),
        within=terms.within if scopes is None else (*terms.within, scopes),
        call_id=terms.call_id or new_id("call"),
    )


def is_own(terms: CallTerms) -> bool:
    """Whether the program calls for itself, so that its own key signs and its own token is shown."""
    return terms.caller.trust == "self"


def timeout_ms(deadline: float | None) -> int | None:
    """What is left of the time, as the wires say it."""
    return None if deadline is None else max(0, round((deadline - asyncio.get_running_loop().time()) * 1000))


def encode_body(value: Any) -> bytes:
    """The value as JSON.

    Raises:
        BusError: It has no JSON form (`bad_request`).
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise BusError("bad_request", f"the body has no JSON form: {error}") from error
