"""What an HTTP answer that is no success means on the bus."""

from __future__ import annotations

import msgspec

from handrail.core.errors import BusError, Outcome
from handrail.node.bus.wire_codes import WIRE

_BY_STATUS = {413: "bad_request", 415: "bad_request", 403: "unauthorized", 421: "bad_request", 500: "internal_error"}
_BY_STATUS |= {wire.http: code for code, wire in reversed(WIRE.items()) if wire.http not in _BY_STATUS}
PROXIES = frozenset({502, 504})
"""What something in between says when it lost the node: nobody knows what became of the request."""
NOT_NOW = frozenset({"capacity_exceeded", "rate_limited", "partition"})
"""What a node says that does not let a call in for the moment."""
_AT_THE_DOOR = frozenset(
    {"unauthorized", "invalid_signature", "revoked", "not_federated", "federation_forbidden", "not_found"}
    | {code for code in WIRE if code.startswith("token_")}
)


def error_of_answer(status: int, body: bytes) -> BusError:
    """The error that a node answered; or, from whoever else answered, what the status stands for."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = None
    if isinstance(said, dict) and isinstance(said.get("error"), str):
        found = BusError.from_dict(said)
        return found if found.code in WIRE else BusError("internal_error", found.message, outcome=found.outcome)
    code = _BY_STATUS.get(status, "internal_error" if status >= 500 else "bad_request")
    # A node says what became of the call. Who else fails in answering may have passed it on.
    outcome: Outcome = "in_doubt" if code == "internal_error" else "failed"
    return BusError(code, f"the node answered {status} and said no more", outcome=outcome)


def is_momentary_refusal(error: BusError) -> bool:
    """Whether a later attempt was not let in for the moment, which says nothing about the one before."""
    return error.code in NOT_NOW and error.outcome != "in_doubt" and not error.details.get("begun")


def in_doubt_error(error: BusError) -> BusError:
    """What a later attempt was refused with, at the door: the one before may have been let in, and done."""
    if error.code not in _AT_THE_DOOR or error.outcome == "in_doubt":
        return error
    why = f"the call was put before, and whether it was done is not known; asked again, the node says: {error.message}"
    return BusError(error.code, why, outcome="in_doubt", retry_after_ms=error.retry_after_ms)
