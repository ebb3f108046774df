"""How a provider has been doing: how often it answered, how fast, and whether it is left alone for a while."""

from __future__ import annotations

from collections import deque

WINDOW = 100
"""Calls that count."""
LEAST = 5
"""Calls before anything is concluded from them."""
ENOUGH = 0.5
"""The share that must have been answered."""
QUARANTINE = 60.0
"""Seconds that one below that is left alone; then it starts over."""


class ProviderHealth:
    """The health of a provider. Only its own failures count, not mistakes of callers."""

    __slots__ = ("_answered", "_failed", "_times", "quarantined_until")

    def __init__(self) -> None:
        self._answered: deque[bool] = deque(maxlen=WINDOW)
        self._failed = 0
        self._times: deque[float] = deque(maxlen=WINDOW)
        self.quarantined_until: float = float("-inf")

    def note(self, ok: bool, ms: float, now: float) -> None:
        if len(self._answered) == WINDOW and not self._answered[0]:
            self._failed -= 1
        self._answered.append(ok)
        self._times.append(ms)
        if ok:
            return
        self._failed += 1
        if len(self._answered) >= LEAST and self.success < ENOUGH:
            self.quarantined_until = now + QUARANTINE
            self._answered.clear()
            self._failed = 0

    @property
    def success(self) -> float:
        return 1.0 - self._failed / len(self._answered) if self._answered else 1.0

    def milliseconds(self, share: float) -> float | None:
        """What this share of the last calls took at most, as 0.5 or 0.99."""
        if not self._times:
            return None
        return sorted(self._times)[min(len(self._times) - 1, int(share * len(self._times)))]
