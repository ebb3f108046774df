"""Where the inside of a call ends, as its text arrives. Every character is looked at once."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Protocol

_OUTSIDE = re.compile(r"[\"'{}\[\]()<`]")
_INSIDE = {quote: re.compile(rf"[{quote}\\]") for quote in "\"'"}


class Scanner(Protocol):
    def feed(self, text: str) -> int | None:
        """How far into this piece the inside goes, if it ends here; below 0 if it ended in an earlier one."""
        ...


class Balanced:
    """A value in brackets: it ends with the last of them, or at a mark that no value has outside its strings."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._escaped = False

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


class Until:
    """Text up to the first of some marks."""

    def __init__(self, marks: Collection[str]) -> None:
        self._pattern = re.compile("|".join(map(re.escape, marks)))
        self._keep = max(map(len, marks)) - 1
        self._tail = ""

    def feed(self, text: str) -> int | None:
        joined = self._tail + text
        found = self._pattern.search(joined)
        if found is not None:
            return found.start() - len(self._tail)
        self._tail = joined[-self._keep :] if self._keep else ""
        return None
