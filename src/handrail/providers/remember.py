"""What is worked out once for things that stay the same from turn to turn: tools, names, settings."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from operator import is_
from typing import ParamSpec, TypeVar

from msgspec.structs import astuple, replace

from handrail.core.model import ModelRequest

P = ParamSpec("P")
T = TypeVar("T")

_SIZE = 64


def remembered(make: Callable[P, T]) -> Callable[P, T]:
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


def unchanged(request: ModelRequest, make: Callable[..., T], *given: object) -> T:
    """`make(request, *given)`, which looks at everything but the messages, made again only when that has changed.

    What a request has is known by identity, as in `remembered`.
    """
    scratch = request.scratch
    if scratch is None:
        return make(request, *given)
    asked = (*astuple(replace(request, messages=(), scratch=None)), *given)
    kept = (scratch.base or scratch).kept
    known = kept.get(make)
    if known is None or not all(map(is_, known[0], asked)):
        known = kept[make] = (asked, make(request, *given))
    made: T = known[1]
    return made
