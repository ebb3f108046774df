"""Caches what is computed for objects that stay the same from turn to turn: tools, names, profiles."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_SIZE = 64


def cached_by_identity(make: Callable[P, T]) -> Callable[P, T]:
    """Have a pure function keep its latest answers. Arguments are known by identity, and only by position.

    For values that nobody changes and that are costly to compare, as a tuple of two hundred tools is.
    """
    kept: dict[tuple[int, ...], tuple[tuple[object, ...], T]] = {}
    lock = threading.Lock()

    @wraps(make)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        key = tuple(map(id, args))
        known = kept.get(key)  # its arguments live as long as it does, so no other object has their ids
        if known is not None:
            return known[1]
        value = make(*args, **kwargs)
        with lock:
            kept[key] = (args, value)
            if len(kept) > _SIZE:
                del kept[next(iter(kept))]
        return value

    return call
