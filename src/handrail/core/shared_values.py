"""Values that are derived from an object and kept with it, so that they are made once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

_MOST = 16
_lock = threading.Lock()


class SharedValues:
    """Values by what they were made from: the latest few, as long as their owner is there."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value under a key, made at first. Two threads may both make it; one of the two values is kept."""
        try:
            found: T = self._values[key]
        except KeyError:
            found = make()
            with _lock:
                self._values[key] = found
                if len(self._values) > _MOST:
                    del self._values[next(iter(self._values))]
        return found
