"""What an HTTP answer that is no success means on the bus."""

from __future__ import annotations

import msgspec

from handrail.bus.codes import WIRE
from handrail.core.errors import BusError

_BY_STATUS = {413: "bad_request", 415: "bad_request", 403: "unauthorized", 421: "bad_request", 500: "internal_error"}
_BY_STATUS |= {wire.http: code for code, wire in reversed(WIRE.items()) if wire.http not in _BY_STATUS}
PROXIES = frozenset({502, 504})
"""What something in between says when it lost the node: nobody knows what became of the request."""


def error_of(status: int, body: bytes) -> BusError:
    """The error that a node answered; or, from whoever else answered, what the status stands for."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        said = None
    if isinstance(said, dict) and isinstance(said.get("error"), str):
        found = BusError.from_dict(said)
        return found if found.code in WIRE else BusError("internal_error", found.message, outcome=found.outcome)
    code = _BY_STATUS.get(status, "internal_error" if status >= 500 else "bad_request")
    return BusError(code, f"the node answered {status} and said no more")
