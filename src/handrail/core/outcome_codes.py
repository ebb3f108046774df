"""The codes and statuses of each outcome in other protocols: one row for each, so that every door says the same.

nrv         the code of its `ToolError`
hearthnet   the wire code, over HTTP, SSE, WebSocket and the bus
http        the status that goes with it
"""

from __future__ import annotations

from typing import NamedTuple

from handrail.core.errors import Outcome


class OutcomeCodes(NamedTuple):
    nrv: str
    hearthnet: str
    http: int


CODES: dict[Outcome, OutcomeCodes] = {
    "unknown_tool": OutcomeCodes("UNKNOWN_TOOL", "bad_request", 400),
    "invalid_arguments": OutcomeCodes("INVALID_INPUT", "bad_request", 400),
    "forbidden": OutcomeCodes("FORBIDDEN", "token_scope_insufficient", 403),
    "denied": OutcomeCodes("DENIED", "unauthorized", 401),
    "needs_confirmation": OutcomeCodes("CONFIRMATION_REQUIRED", "requires_confirmation", 409),
    "timeout": OutcomeCodes("TIMEOUT", "timeout", 408),
    "failed": OutcomeCodes("EXECUTION_FAILED", "internal_error", 500),
    "cancelled": OutcomeCodes("CANCELLED", "cancelled", 499),
    "in_doubt": OutcomeCodes("OUTCOME_UNKNOWN", "internal_error", 500),
    "limit": OutcomeCodes("LIMIT", "capacity_exceeded", 429),
}
"""The codes of every outcome but `ok`."""
