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
from handrail.tools.result_fields import scalars_of

_SPACES = {at: " " for at in range(128) if not chr(at).isalnum() and chr(at) != "_"}
_WORD = re.compile(r"\w+")
_MOST_KNOWN = 256
_LONGEST = 40
"""Characters of a text that may be a number or a moment."""
_NONE: frozenset[str] = frozenset()


class ValueIndex:
    """The ids of results by what stands in their fields.

    Words are looked for in the text of a result, which is much cheaper than to take every text apart. Only numbers and
    moments, which have many notations, are kept by themselves, once a call has one.
    """

    __slots__ = ("_exact", "_ids", "_known", "_new", "_texts", "_unread")

    def __init__(self) -> None:
        self._new: list[tuple[str, Any]] = []
        self._ids: list[str] = []
        """Of the texts, in the order in which they came."""
        self._known: dict[str, tuple[int, frozenset[str]]] = {}
        """Where texts were found that were looked for, and how many of the results were looked at."""
        self._texts: dict[str, str] = {}
        """All texts of a result in the form in which words are compared."""
        self._unread: list[tuple[str, list[Any]]] = []
        """What may be a number or a moment, and was not looked at."""
        self._exact: dict[Hashable, set[str]] = {}

    def add(self, content: Any, id: str) -> None:
        """Take in a result."""
        self._new.append((id, content))

    def forget(self, id: str) -> None:
        """Leave a result out from now on."""
        self._texts.pop(id, None)

    def holding(self, value: Any) -> Set[str]:
        """The results that have every word of a value, or the same number or moment."""
        self._take_in()
        exact = self._same(value)
        if not isinstance(value, str) or as_number(value) is not None:
            return exact
        plain = _compared(value).split()
        words = plain if len(plain) == 1 else sorted(_words(value), key=len, reverse=True)
        if not words:
            return exact | self._texts.keys()
        looked, found = self._known.get(value, (0, _NONE))
        if looked < len(self._ids):
            new = (id for id in self._ids[looked:] if id in self._texts)
            found |= {id for id in new if all(word in self._texts[id] for word in words)}
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[value] = len(self._ids), found
        return exact | (found & self._texts.keys())

    def _take_in(self) -> None:
        new, self._new = self._new, []
        for id, content in new:
            scalars = scalars_of(content)
            if id in self._texts:
                self._known.clear()
            self._ids.append(id)
            self._texts[id] = _compared("\n".join([each for each in scalars if isinstance(each, str)]))
            if short := [each for each in scalars if not isinstance(each, str) or len(each) <= _LONGEST]:
                self._unread.append((id, short))

    def _same(self, value: Any) -> Set[str]:
        keys = list(_exact(value))
        if not keys:
            return _NONE
        unread, self._unread = self._unread, []
        for id, scalars in unread:
            for each in scalars:
                for key in _exact(each):
                    self._exact.setdefault(key, set()).add(id)
        return set[str]().union(*(self._exact.get(key, _NONE) for key in keys))


def _compared(text: str) -> str:
    return text.lower() if text.isascii() else plain_form(text).casefold()


def _words(value: Any) -> set[str]:
    if not isinstance(value, str):
        return set()
    if value.isascii():
        return set(value.lower().translate(_SPACES).split())  # quicker than an expression
    return set(_WORD.findall(_compared(value)))


def _exact(value: Any) -> Iterator[Hashable]:
    if isinstance(value, str) and len(value) > _LONGEST:
        return
    if isinstance(value, bool) or value is None:
        yield "is", value
    elif (number := as_number(value)) is not None:
        yield "is", number
    elif (moment := as_moment(value)) is not None:
        yield moment.key
