"""When the next request to a service may go out, for all who ask that service.

A service that says 429 means all who use its key, not the one request that it
answered. So everybody waits as long as it asked, and then they go one after the
other, slowly at first: the first learns whether it is too early still, and the others have lost nothing.

It counts time and holds no tasks, so models in several threads and event loops may share one.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort

from handrail.core.errors import UsageError
from handrail.core.ports import Clock, SystemClock
from handrail.models.transport import Endpoint

MINUTE = 60.0
GAP = 0.25
"""Seconds between the first two requests after a pause. An answer of 429 comes faster than that."""


class RateLimitSlot:
    """The time slot of one request."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: float | None = None


class ServiceRateLimit:
    """The line before one service."""

    def __init__(self, requests_per_minute: int | None = None, *, clock: Clock = SystemClock()) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held = self._next = float("-inf")
        """No request before `_held`; the next one that has to wait goes at `_next`."""
        self._lined_up = 0
        """Since the last pause was asked for."""
        self._limit: int | None = None
        self._sent: list[float] = []
        """When requests went in the last minute, or will go; in order."""
        self.limit(requests_per_minute)

    def limit(self, requests_per_minute: int | None) -> None:
        """Let no minute have more requests than this; the lowest that anybody asks for holds."""
        if requests_per_minute is None:
            return
        if not isinstance(requests_per_minute, int) or requests_per_minute < 1:
            raise UsageError(f"requests_per_minute must be a whole number of at least 1, not {requests_per_minute!r}")
        with self._lock:
            self._limit = min(requests_per_minute, self._limit or requests_per_minute)

    def hold(self, seconds: float) -> None:
        """The service wants a pause of all."""
        with self._lock:
            until = self._clock.monotonic() + seconds
            if until > self._held:
                # Those who wait for an earlier end find theirs passed, and line up again.
                self._held = self._next = until
                self._lined_up = 0

    @property
    def is_free(self) -> bool:
        """Whether a request may go without standing in line."""
        return self._limit is None and self._next <= self._clock.monotonic()

    def wait(self, place: RateLimitSlot) -> float:
        """Seconds that a request must still wait. At 0 it goes, and is counted; until then it asks again."""
        with self._lock:
            now = self._clock.monotonic()
            if place.at is None or place.at < self._held:
                self._give_up(place)
                place.at = self._place(now)
            return max(0.0, place.at - now)

    def leave(self, place: RateLimitSlot) -> None:
        """A request that waited is not sent after all."""
        with self._lock:
            self._give_up(place)

    def _place(self, now: float) -> float:
        at = now
        if self._next > now:
            at = self._next
            self._lined_up += 1
            self._next += GAP / self._lined_up
        if self._limit is not None:
            del self._sent[: bisect_right(self._sent, now - MINUTE)]
            if len(self._sent) >= self._limit:
                at = max(at, self._sent[-self._limit] + MINUTE)
            insort(self._sent, at)
        return at

    def _give_up(self, place: RateLimitSlot) -> None:
        if place.at is not None and place.at in self._sent:
            self._sent.remove(place.at)
        place.at = None


class ServiceRateLimits:
    """One rate limit per service and key, shared by all models made with this object."""

    def __init__(self, *, clock: Clock = SystemClock()) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], ServiceRateLimit] = {}

    def of(self, endpoint: Endpoint, requests_per_minute: int | None = None) -> ServiceRateLimit:
        pace = self._known.setdefault((endpoint.origin, str(endpoint.key)), ServiceRateLimit(clock=self._clock))
        pace.limit(requests_per_minute)
        return pace
