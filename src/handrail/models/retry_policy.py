"""When a model call is worth another try, and after how long. Tools are never tried again from here.

Only the policy; `CodecModel` asks it, and only while nothing of the reply was given out.
"""

from __future__ import annotations

from msgspec import Struct

from handrail.core.backoff import longest_wait
from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, UsageError

OF_THE_SERVICE = (RateLimited, ModelUnavailable, ProtocolError)
"""Failures that say something about the service and not about the request: another time, or elsewhere, it may do."""


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How often, and after which pauses, a service that failed is asked again."""

    attempts: int = 3
    """The number of attempts, the first included."""
    first_delay: float = 0.5
    longest_delay: float = 30.0
    """Seconds: what a delay may grow to, as it doubles."""
    longest_wait: float = 120.0
    """A service that wants a longer pause than this is not waited for; the error says how long it would be."""

    def __post_init__(self) -> None:
        if self.attempts < 1 or min(self.first_delay, self.longest_delay, self.longest_wait) < 0:
            raise UsageError("a retry policy needs at least 1 attempt and delays of 0 or more seconds")

    def delay(self, attempt: int, error: ModelError, chance: float) -> float | None:
        """Seconds to wait after this attempt (the first is 1) failed, or None to give up.

        `chance` is drawn from 0 to 1: many callers that fail together do not come back together.
        """
        if attempt >= self.attempts or not isinstance(error, OF_THE_SERVICE):
            return None
        # 2**64 is beyond any longest delay; without the bound the power overflows.
        jitter = chance * longest_wait(attempt, self.first_delay, self.longest_delay)
        if error.retry_after is None:
            return jitter
        return None if error.retry_after > self.longest_wait else error.retry_after + min(jitter, self.first_delay)
