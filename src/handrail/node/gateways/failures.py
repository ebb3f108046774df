"""Why an answer is not given: one value for every error, of which each API makes its own form."""

from __future__ import annotations

import logging
import math
from typing import Any

from msgspec import Struct

from handrail.core.errors import (
    BusError,
    HandrailError,
    LeaseHeld,
    LimitExceeded,
    MissingExtra,
    ModelError,
    ModelUnavailable,
    RateLimited,
    RequestRefused,
    UsageError,
)
from handrail.core.redact import redact_text
from handrail.node.bus.wire_codes import WIRE

logger = logging.getLogger(__name__)

OVERLOADED = 503
_LONGEST = 2_000
_STATUS = {"expired": 401, "token_expired": 401, "invalid_signature": 401}
"""The statuses in which these APIs differ from the bus: a key that is no longer valid is not a valid key."""
_MINE = frozenset({400, 404, 413, 422})
"""What a model's service refuses for the request's sake and not for the node's."""


class GatewayFailure(Struct, frozen=True, kw_only=True):
    status: int
    code: str
    message: str
    param: str | None = None
    retry_after_ms: int | None = None
    api_details: dict[str, Any] | None = None
    """What clients of one API look for, to go on by themselves."""
    lasting: bool = False
    """Whether the same request would fail again; the official clients repeat whatever has a status of 500 or more."""

    def headers(self, *, again: bool = True) -> dict[str, str]:
        """What the answer says of trying again; official clients heed all three."""
        said = {} if again and not self.lasting else {"x-should-retry": "false"}
        if self.status == 401:
            said["www-authenticate"] = "Bearer"
        if self.retry_after_ms is not None:
            said["retry-after"] = str(math.ceil(self.retry_after_ms / 1000))
            said["retry-after-ms"] = str(self.retry_after_ms)
        return said


def failure_of(error: BaseException) -> GatewayFailure:
    """The failure that a client is told for any error. What was not foreseen is for the log only."""
    match error:
        case BusError():
            return _of_bus(error)
        case ModelError():
            return _of_model(error)
        case LimitExceeded():
            return _failure(500, "limit_exceeded", str(error), lasting=True)
        case LeaseHeld():
            return _failure(409, "conflict", "that run is being worked on; wait for its answer")
        case MissingExtra():
            return _failure(501, "not_implemented", error.for_others, lasting=True)
        case UsageError():
            return _failure(400, "bad_request", str(error))
    if isinstance(error, HandrailError):
        logger.error("a gateway could not answer: %s", redact_text(str(error)))
    else:
        logger.error("a gateway could not answer", exc_info=error)
    return _failure(500, "internal_error", "the node could not answer; its log says why")


def _failure(
    status: int, code: str, message: str, retry_after_ms: int | None = None, *, lasting: bool = False
) -> GatewayFailure:
    words = redact_text(message)[:_LONGEST]
    return GatewayFailure(status=status, code=code, message=words, retry_after_ms=retry_after_ms, lasting=lasting)


def _of_bus(error: BusError) -> GatewayFailure:
    code = error.code if error.code in WIRE else "internal_error"
    param = error.details.get("param")
    return GatewayFailure(
        status=error.details.get("status") or _STATUS.get(code) or WIRE[code].http,
        code=code,
        message=redact_text(error.message or code)[:_LONGEST],
        param=param if isinstance(param, str) and param else None,
        retry_after_ms=error.retry_after_ms,
        api_details=error.details.get("api_details"),
        lasting=error.outcome == "in_doubt",
    )


def _of_model(error: ModelError) -> GatewayFailure:
    """The service's own words, unless they are about the node's key."""
    wait = None if error.retry_after is None else max(0, round(error.retry_after * 1000))
    match error:
        case RateLimited():
            return _failure(429, "rate_limited", str(error), wait)
        case ModelUnavailable():
            return _failure(OVERLOADED, "model_unavailable", str(error), wait)
        case RequestRefused(status=status) if status in _MINE:
            return _failure(400, "bad_request", str(error))
        case RequestRefused():
            logger.error("a model's service refused the node: %s", redact_text(str(error)))
            return _failure(
                502, "model_refused", "the service of the model does not take the node's requests", lasting=True
            )
    return _failure(502, error.code, str(error))
