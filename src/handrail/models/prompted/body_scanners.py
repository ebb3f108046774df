"""Where the inside of a call ends, as its text arrives. Every character is looked at once."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Protocol

from handrail.models.prompted.argument_elements import VALUES

FENCE = "```"
_OUTSIDE = re.compile(r"[\"'{}\[\]()<`]")
_INSIDE = {quote: re.compile(rf"[{quote}\\]") for quote in "\"'"}


class BodyScanner(Protocol):
    def feed(self, text: str) -> int | None:
        """The length of the inside in this piece if it ends here; below 0 if it ended in an earlier one."""
        ...


class BalancedScanner:
    """A value in brackets: it ends with the last of them, or at a mark that no value has outside its strings."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._escaped = False

    @property
    def in_string(self) -> bool:
        return bool(self._quote)

    def feed(self, text: str) -> int | None:
        position = 0
        while position < len(text):
            if self._escaped:
                self._escaped = False
                position += 1
                continue
            found = (_INSIDE[self._quote] if self._quote else _OUTSIDE).search(text, position)
            if found is None:
                return None
            position = found.end()
            if self._quote:
                self._in_string(found[0])
            elif found[0] in "<`":
                return found.start()
            elif self._closed_by(found[0]):
                return position
        return None

    def _in_string(self, mark: str) -> None:
        if mark == "\\":
            self._escaped = True
        else:
            self._quote = ""

    def _closed_by(self, mark: str) -> bool:
        if mark in "\"'":
            self._quote = mark
            return False
        self._depth += 1 if mark in "{[(" else -1
        return self._depth <= 0


class FencedScanner:
    """Python up to the fence that closes it: one inside a string closes nothing."""

    def __init__(self) -> None:
        self._quote = ""
        self._tail = ""

    def feed(self, text: str) -> int | None:
        joined, before = self._tail + text, len(self._tail)
        self._tail = ""
        position = 0
        while (found := _CODE[self._quote].search(joined, position)) is not None:
            mark = found[0]
            if found.end() == len(joined) and _may_grow(mark, self._quote):
                self._tail = mark
                return None
            position = found.end()
            if mark == FENCE:
                return found.start() - before
            if mark == self._quote:
                self._quote = ""
            elif not self._quote and mark in _CODE:
                self._quote = mark
        return None


_CODE = {
    "": re.compile(r"\"{3}|'{3}|\"{1,2}|'{1,2}|`{1,3}"),
    '"': re.compile(r'"|\\(?:.|\Z)', re.DOTALL),
    "'": re.compile(r"'|\\(?:.|\Z)", re.DOTALL),
    '"""': re.compile(r'"{1,3}|\\(?:.|\Z)', re.DOTALL),
    "'''": re.compile(r"'{1,3}|\\(?:.|\Z)", re.DOTALL),
}
"""What to look for outside strings, and inside each kind of them. Two quotes outside are an empty string."""


def _may_grow(mark: str, quote: str) -> bool:
    return mark == "\\" or (len(mark) < 3 and mark[0] in "\"'`" and len(quote) != 1)


class ClosedValueScanner:
    """Like `UntilMarkScanner`, but once a value has begun, a mark closes only after the end of a value."""

    def __init__(self, marks: Collection[str]) -> None:
        self._marks = frozenset(marks)
        self._pattern = re.compile("|".join(map(re.escape, (*marks, *_VALUES))))
        self._keep = max(map(len, (*marks, *_VALUES))) - 1
        self._tail = ""
        self._ends: tuple[str, ...] = ()
        """What values end with, once the first has shown of which kind they are."""
        self._before = ""
        """What came last, with a space in place of many."""

    def feed(self, text: str) -> int | None:
        joined, before = self._tail + text, len(self._tail)
        done = 0
        for found in self._pattern.finditer(joined):
            self._pass(joined[done : found.start()])
            if found[0] in self._marks and (not self._ends or self._before.rstrip().endswith(self._ends)):
                return found.start() - before
            self._ends = self._ends or _VALUES.get(found[0], ())
            self._pass(found[0])
            done = found.end()
        kept = max(done, len(joined) - self._keep)
        self._pass(joined[done:kept])
        self._tail = joined[kept:]
        return None

    def _pass(self, text: str) -> None:
        text = self._before + text
        words = text.rstrip()
        self._before = words[-_LONGEST_END:] + (" " if len(words) < len(text) else "")


_VALUES = {opens: (closes,) for opens, closes in VALUES.items()} | {"{": ("}", ")", "]")}
"""How a value begins, and what stands last where it has ended."""
_LONGEST_END = max(len(end) for ends in _VALUES.values() for end in ends)


class UntilMarkScanner:
    """Text up to the first match of a pattern of marks, outside of strings that one delimiter opens and closes."""

    def __init__(self, pattern: re.Pattern[str], longest: int, delimiter: str = "") -> None:
        self._pattern = pattern
        self._keep = longest - 1
        self._delimiter = delimiter
        self._tail = ""
        self._in_string = False

    @classmethod
    def any_of(cls, marks: Collection[str], delimiter: str = "") -> UntilMarkScanner:
        literals = [delimiter, *marks] if delimiter else marks
        return cls(re.compile("|".join(map(re.escape, literals))), max(map(len, literals)), delimiter)

    def feed(self, text: str) -> int | None:
        joined, before, done = self._tail + text, len(self._tail), 0
        for found in self._pattern.finditer(joined):
            if found[0] == self._delimiter:
                self._in_string = not self._in_string
            elif not self._in_string:
                return found.start() - before
            done = found.end()
        self._tail = joined[max(done, len(joined) - self._keep) :]
        return None
