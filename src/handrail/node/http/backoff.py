"""How long to wait before asking again: up to ¼, 1, 2, 4 … 60 seconds, so that many who lost one node part.

The first try is early: a node lets a call go on without its caller for less than a second.
"""

from __future__ import annotations

from collections.abc import Callable

LONGEST = 60.0
_FIRST = 0.25


class HttpBackoff:
    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._tries = 0

    def delay(self) -> float:
        most = 2.0 ** (self._tries - 1) if self._tries else _FIRST
        self._tries = min(self._tries + 1, 7)
        return self._chance() * min(LONGEST, most)

    def reset(self) -> None:
        """Something came: whatever breaks next breaks for the first time."""
        self._tries = 0
