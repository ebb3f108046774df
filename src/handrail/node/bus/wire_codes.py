"""The closed set of wire codes: the HTTP status of each, and whether asking again can help."""

from __future__ import annotations

from typing import Literal, NamedTuple

from handrail.core.errors import Cancelled, Denied, Forbidden, InDoubt, LimitReached, TimedOut, ToolError

Again = Literal["no", "later", "if_idempotent", "new_token"]
"""`later`: after `retry_after_ms`, or with a growing delay. `new_token`: with one that was issued since."""


class WireCode(NamedTuple):
    http: int
    again: Again


WIRE: dict[str, WireCode] = {
    "bad_request": WireCode(400, "no"),
    "schema_mismatch": WireCode(400, "no"),
    "invalid_signature": WireCode(401, "no"),
    "unauthorized": WireCode(401, "no"),
    "token_invalid": WireCode(401, "no"),
    "token_revoked": WireCode(401, "new_token"),
    "revoked": WireCode(403, "no"),
    "token_scope_insufficient": WireCode(403, "no"),
    "federation_forbidden": WireCode(403, "no"),
    "not_found": WireCode(404, "no"),
    "not_federated": WireCode(404, "no"),
    "timeout": WireCode(408, "later"),
    "requires_confirmation": WireCode(409, "no"),
    "expired": WireCode(410, "new_token"),
    "token_expired": WireCode(410, "new_token"),
    "rate_limited": WireCode(429, "later"),
    "capacity_exceeded": WireCode(429, "later"),
    "cancelled": WireCode(499, "no"),
    "internal_error": WireCode(500, "if_idempotent"),
    "not_implemented": WireCode(501, "no"),
    "partition": WireCode(503, "later"),
}
"""Every code that a caller can see. Any other code becomes `internal_error`."""

ELSEWHERE = frozenset({"capacity_exceeded", "partition"})
"""Codes that say that nothing ran, so that another node may be asked; unless they come from something that did."""
BEGUN = "begun"
"""The detail of an error that says so."""

REFUSALS: dict[str, type[ToolError]] = {
    kind.outcome: kind for kind in (Forbidden, Denied, TimedOut, Cancelled, InDoubt, LimitReached)
}
"""The error, by its outcome, that a refused call raises in whoever runs it as a tool."""
