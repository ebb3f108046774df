"""Which writes overlap a call: what decides whether its result may be shared and remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class OverlappingWrites:
    """The writes of one executor, whoever makes them: what one caller changes, another reads.

    A call is asked for with its own identity, because equal writes do not disturb each other. A write that
    equals no other has a bare `object` as its identity, and only adds to the sums.
    """

    __slots__ = ("_all_begun", "_all_running", "_begun", "_running", "_users")

    def __init__(self) -> None:
        self._all_begun = 0
        self._all_running = 0
        self._begun: Counter[Hashable] = Counter()
        self._running: Counter[Hashable] = Counter()
        self._users = 0

    def generation(self, call: Hashable) -> int:
        """Changes whenever another write begins."""
        return self._all_begun - self._begun[call]

    def is_quiet(self, call: Hashable) -> bool:
        """Whether no other write is running."""
        return self._all_running == self._running[call]

    def wrote(self) -> None:
        """A write that nobody saw running has taken effect."""
        self._all_begun += 1

    @contextmanager
    def writing(self, call: Hashable) -> Iterator[None]:
        """While a write runs. Its own count is kept as long as any call is in flight to compare with it."""
        shared = type(call) is not object
        self._all_begun += 1
        self._all_running += 1
        self._begun[call] += shared
        self._running[call] += shared
        try:
            yield
        finally:
            self._all_running -= 1
            self._running[call] -= shared
            if not self._running[call]:
                del self._running[call]
            if not shared:
                del self._begun[call]

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """While a call is under way; when none is, there is nothing to compare and all counts start anew."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._begun.clear()
                self._all_begun = 0
