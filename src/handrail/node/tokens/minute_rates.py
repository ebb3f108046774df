"""How often in a minute: a window that slides, on the clock that never goes back. It counts in this process."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.ports import Clock

_MINUTE = 60.0
_MOST = 10_000
"""Ids that are kept in mind."""


class MinuteRates:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._calls = BoundedMemory[str, deque[float]](_MOST, lru=True)

    def wait(self, limits: Mapping[str, int]) -> int:
        """Milliseconds until each of these ids may call again; 0 is now."""
        now = self._clock.monotonic()
        waits = [0]
        for id, most in limits.items():
            calls = self._calls.get(id, deque())
            while calls and calls[0] <= now - _MINUTE:
                calls.popleft()
            if len(calls) >= most:
                waits.append(math.ceil((calls[len(calls) - most] + _MINUTE - now) * 1000))
        return max(waits)

    def note(self, limits: Mapping[str, int]) -> None:
        """Counts one more call, now."""
        for id in limits:
            self._calls.setdefault(id, deque()).append(self._clock.monotonic())
