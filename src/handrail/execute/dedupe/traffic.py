"""Which writes overlap a call: what decides whether its result may be shared and remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Traffic:
    """The writes of one scope, while any call of it is in flight.

    A call is asked for with its own identity, because equal writes do not disturb each other.
    """

    __slots__ = ("_begun", "_running", "users")

    def __init__(self) -> None:
        self._begun: Counter[Hashable] = Counter()
        self._running: Counter[Hashable] = Counter()
        self.users = 0

    def generation(self, call: Hashable) -> int:
        """Changes whenever another write begins."""
        return self._begun.total() - self._begun[call]

    def is_quiet(self, call: Hashable) -> bool:
        """Whether no other write is running."""
        return self._running.total() == self._running[call]

    def wrote(self) -> None:
        """A write that nobody saw running has taken effect."""
        self._begun[object()] += 1

    @contextmanager
    def writing(self, call: Hashable) -> Iterator[None]:
        self._begun[call] += 1
        self._running[call] += 1
        try:
            yield
        finally:
            self._running[call] -= 1


class Scopes:
    """The traffic of every scope that has a call in flight, and of no other."""

    def __init__(self) -> None:
        self._scopes: dict[str, Traffic] = {}

    def __len__(self) -> int:
        return len(self._scopes)

    def get(self, scope: str) -> Traffic | None:
        return self._scopes.get(scope)

    @contextmanager
    def enter(self, scope: str) -> Iterator[Traffic]:
        traffic = self._scopes.setdefault(scope, Traffic())
        traffic.users += 1
        try:
            yield traffic
        finally:
            traffic.users -= 1
            if traffic.users == 0:
                del self._scopes[scope]
