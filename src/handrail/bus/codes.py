"""The closed set of wire codes: the HTTP status of each, and whether asking again can help."""

from __future__ import annotations

from typing import Literal, NamedTuple

from handrail.core.errors import Cancelled, Denied, Forbidden, InDoubt, LimitReached, TimedOut, ToolError

Again = Literal["no", "later", "if_idempotent", "new_token"]
"""`later`: after `retry_after_ms`, or with a growing delay. `new_token`: with one that was issued since."""


class Wire(NamedTuple):
    http: int
    again: Again


WIRE: dict[str, Wire] = {
    "bad_request": Wire(400, "no"),
    "schema_mismatch": Wire(400, "no"),
    "invalid_signature": Wire(401, "no"),
    "unauthorized": Wire(401, "no"),
    "token_invalid": Wire(401, "no"),
    "token_revoked": Wire(401, "new_token"),
    "revoked": Wire(403, "no"),
    "token_scope_insufficient": Wire(403, "no"),
    "federation_forbidden": Wire(403, "no"),
    "not_found": Wire(404, "no"),
    "not_federated": Wire(404, "no"),
    "timeout": Wire(408, "later"),
    "requires_confirmation": Wire(409, "no"),
    "expired": Wire(410, "new_token"),
    "token_expired": Wire(410, "new_token"),
    "rate_limited": Wire(429, "later"),
    "capacity_exceeded": Wire(429, "later"),
    "cancelled": Wire(499, "no"),
    "internal_error": Wire(500, "if_idempotent"),
    "not_implemented": Wire(501, "no"),
    "partition": Wire(503, "later"),
}
"""Every code that a caller can see. What is none of them becomes `internal_error`."""

ELSEWHERE = frozenset({"capacity_exceeded", "partition"})
"""Codes that say that nothing ran, so that another node may be asked; unless they come from something that did."""
BEGUN = "begun"
"""The detail of an error that says so."""

REFUSALS: dict[str, type[ToolError]] = {
    kind.outcome: kind for kind in (Forbidden, Denied, TimedOut, Cancelled, InDoubt, LimitReached)
}
"""By outcome: what a call is to whoever runs it as a tool, if it did not just fail."""
