"""One long text by characters and by lines: a file is read once to count, and then only where somebody looks."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from handrail.rlm.contexts.scan import ContextFileChanged, decode
from handrail.rlm.contexts.text_storage import Stored

BLOCK = 1 << 16
"""Bytes between two marks of the index."""


@dataclass(frozen=True, slots=True)
class IndexedText:
    """A stored text and its marks: for every block its first byte, its first character, and the lines before it."""

    stored: Stored
    at: array[int]
    characters: array[int]
    newlines: array[int]
    size: int
    """The characters of the whole text."""
    breaks: int
    """Line breaks in the whole text."""
    is_broken: bool
    """Whether some bytes are not UTF-8; each stands there as U+FFFD."""

    def read(self, start: int, length: int) -> str:
        """The characters of `[start, start + length)` that there are."""
        end = min(start + length, self.size)
        start = max(start, 0)
        if start >= end:
            return ""
        first = bisect_right(self.characters, start) - 1
        last = bisect_left(self.characters, end)
        skipped = start - self.characters[first]
        return self._blocks(first, last)[skipped : skipped + end - start]

    def lines(self, first: int, count: int) -> list[str]:
        """Lines `[first, first + count)` of `text.split("\\n")`, as many as there are."""
        end = min(first + count, self.breaks + 1)
        first = max(first, 0)
        if first >= end:
            return []
        start, stop = self.span(first, end)
        return self.read(start, stop - start).split("\n")

    def span(self, first: int, end: int) -> tuple[int, int]:
        """The characters from the beginning of a line to the end of the line before `end`."""
        return self._line_start(first), self._line_start(end) - 1

    def _line_start(self, line: int) -> int:
        if line <= 0:
            return 0
        if line > self.breaks:
            return self.size + 1
        block = bisect_left(self.newlines, line) - 1
        text = self._blocks(block, block + 1)
        at = -1
        for _ in range(line - self.newlines[block]):
            at = text.index("\n", at + 1)
        return self.characters[block] + at + 1

    def _blocks(self, first: int, last: int) -> str:
        start, stop = self.at[first], self.at[last] if last < len(self.at) else self.stored.end
        file = self.stored.open()
        try:
            data = os.pread(file, stop - start, start)
        finally:
            os.close(file)
        if len(data) < stop - start:
            raise ContextFileChanged("it became shorter")
        return decode(data, True)[0]


def index_text(stored: Stored, block: int = BLOCK) -> IndexedText:
    """Read all of it once, a block at a time, and note where the blocks begin.

    Raises:
        ContextFileChanged: The file is not the same any more.
    """
    file = stored.open()
    try:
        return _index(file, stored, block)
    finally:
        os.close(file)


def _index(file: int, stored: Stored, block: int) -> IndexedText:
    marks = array("Q"), array("Q"), array("Q")
    at, size, breaks, is_broken = stored.start, 0, 0, False
    while at < stored.end:
        for mark, value in zip(marks, (at, size, breaks), strict=True):
            mark.append(value)
        data = os.pread(file, min(block, stored.end - at), at)
        if not data:
            raise ContextFileChanged("it became shorter")
        if data.isascii():
            at, size, breaks = at + len(data), size + len(data), breaks + data.count(b"\n")
            continue
        text, taken, was_broken = decode(data, at + len(data) >= stored.end)
        at, size, breaks = at + taken, size + len(text), breaks + text.count("\n")
        is_broken = is_broken or was_broken
    return IndexedText(stored, *marks, size=size, breaks=breaks, is_broken=is_broken)
