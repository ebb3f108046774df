"""In which results of a run a value may stand: an index by words, numbers and moments.

Only a hint that saves work. Whether a value really stands in a field is asked of the field.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Set
from typing import Any

from handrail.execute.origins.trusted_words import plain_form
from handrail.execute.origins.written_dates import as_moment
from handrail.execute.origins.written_numbers import as_number

_SPACES = {at: " " for at in range(128) if not chr(at).isalnum() and chr(at) != "_"}
_WORD = re.compile(r"\w+")
_NONE: frozenset[str] = frozenset()


class ValueIndex:
    """The ids of results by what stands in their fields."""

    __slots__ = ("_all", "_ids")

    def __init__(self) -> None:
        self._ids: dict[Hashable, set[str]] = {}
        self._all: set[str] = set()

    def add(self, value: Any, id: str) -> None:
        """Take in one field of a result."""
        self._all.add(id)
        for key in {*_words(value), *_exact(value)}:
            self._ids.setdefault(key, set()).add(id)

    def holding(self, value: Any) -> Set[str]:
        """The results that have every word of a value, or the same number or moment."""
        exact = set[str]().union(*(self._ids.get(key, _NONE) for key in _exact(value)))
        words = _words(value)
        if not words:
            return exact if not isinstance(value, str) else self._all
        found = sorted((self._ids.get(word, _NONE) for word in words), key=len)
        return exact | set(found[0]).intersection(*found[1:])


def _words(value: Any) -> set[str]:
    if not isinstance(value, str):
        return set()
    if value.isascii():
        return set(value.lower().translate(_SPACES).split())  # quicker than an expression
    return set(_WORD.findall(plain_form(value).casefold()))


def _exact(value: Any) -> Iterator[Hashable]:
    if isinstance(value, str) and len(value) > 40:
        return
    if isinstance(value, bool) or value is None:
        yield "is", value
    elif (number := as_number(value)) is not None:
        yield "is", number
    elif (moment := as_moment(value)) is not None:
        yield moment.key
