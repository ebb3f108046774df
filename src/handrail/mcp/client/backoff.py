"""When to try again: pure numbers, given the clock and the dice."""

from __future__ import annotations

from collections.abc import Callable

from handrail.core.backoff import longest_wait
from handrail.core.ports import Clock

FIRST_DELAY = 0.5
LONGEST_DELAY = 60.0
STEADY = 10.0
"""Seconds after which a connection that breaks was a good one."""
_MOST_BREAKS = 4
"""That count: a server that can be reached every time is not one to keep away from."""


class ReconnectBackoff:
    """Counts failures in a row. After `most` of them nobody waits for the next try any more."""

    def __init__(self, most: int, clock: Clock, chance: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._chance = chance
        self._breaks = 0
        """In a row, of connections that did not last."""
        self._since = 0.0
        self._next = 0.0
        self.failures = 0

    def began(self) -> None:
        """There is a connection."""
        self.failures = 0
        self._since = self._clock.monotonic()

    def broke(self) -> None:
        """A connection that was there is gone."""
        lasted = self._clock.monotonic() - self._since
        self._breaks = 1 if lasted >= STEADY else self._breaks + 1

    def failed(self) -> None:
        """There was none."""
        self.failures += 1

    def delay(self) -> float:
        """Seconds to wait now: any number up to a bound that doubles, so that many who fail together part."""
        tries = min(self._breaks, _MOST_BREAKS) + self.failures
        wait = self._chance() * longest_wait(tries, FIRST_DELAY, LONGEST_DELAY)
        self._next = self._clock.monotonic() + wait
        return wait

    @property
    def exhausted(self) -> bool:
        return self.failures >= self._most

    @property
    def remaining(self) -> float:
        """Seconds until the next try."""
        return max(0.0, self._next - self._clock.monotonic())
