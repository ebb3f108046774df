"""A clock that a test sets."""

from __future__ import annotations


class FixedClock:
    """Stands still until it is moved. Sleeping moves it and returns at once."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = now
        self._monotonic = 0.0
        self.slept: list[float] = []

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._monotonic += seconds
        self._now += round(seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)
