"""The citations of a reply as footnotes: a numbered list of sources, and the places in the text where numbers stand.

A number stands at the end of the words that its source supports. It is moved where it would break Markdown: out of code
and links, in front of the last bar of a table row, and from a line that is only marks to the line before it. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from msgspec import Struct

from handrail.core.messages import Citation

MOST_SOURCES = 100
"""Sources that are listed for one reply."""
MOST_MARKS = 1_000

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ONLY_MARKS = re.compile(r"[\s|:*_=+>#-]*")
"""A rule, the line below the head of a table, an empty item."""
_PREFIX = re.compile(r"[ \t]*(?:(?:[-*+>]|#{1,6}|\d{1,9}[.)])[ \t]+|>)*")
_UNBROKEN = re.compile(
    r"`+[^`]*`+"
    r"|<https?://[^\s<>]*>"
    r"|!?\[[^\]]{0,400}\]\([^)]{0,2000}\)"
    r"|https?://[^\s<>\"`]+"
)
"""Inside of these no number can stand: code, links, addresses."""


class FootnoteSource(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One source in the list below a reply."""

    number: int
    title: str = ""
    url: str = ""
    """The address as the service wrote it. It may be made a link only if `host` is set."""
    host: str = ""
    """The host of the address, if its scheme is http or https."""
    quote: str = ""


class FootnoteMark(Struct, frozen=True):
    """A number in the text."""

    at: int
    """The character before which it stands."""
    number: int


class Footnotes(Struct, frozen=True):
    sources: tuple[FootnoteSource, ...] = ()
    marks: tuple[FootnoteMark, ...] = ()
    """The marks in the order of their places in the text."""
    left_out: int = 0
    """Sources beyond the most that are listed."""


class FootnoteSourceList:
    """Numbers sources as they are named; the same one has the same number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._sources: list[FootnoteSource] = []

    def add(self, citation: Citation) -> int | None:
        """The number of the source that a citation names; None if there are too many."""
        key = (citation.url, "") if citation.url else (citation.title, citation.quote)
        if key not in self._numbers:
            number = self._numbers[key] = len(self._numbers) + 1
            if number <= MOST_SOURCES:
                host = host_of(citation.url)
                quote, title, url = citation.quote, citation.title, citation.url
                self._sources.append(FootnoteSource(number=number, title=title, url=url, host=host, quote=quote))
        number = self._numbers[key]
        return number if number <= MOST_SOURCES else None

    @property
    def sources(self) -> tuple[FootnoteSource, ...]:
        return tuple(self._sources)

    @property
    def left_out(self) -> int:
        return len(self._numbers) - len(self._sources)


def footnotes(text: str, citations: Sequence[Citation]) -> Footnotes:
    """What a reader of this text is shown of its citations. Numbers follow the order in which the sources came."""
    if not citations:
        return Footnotes()
    listed = FootnoteSourceList()
    ends: set[tuple[int, int]] = set()
    for citation in citations:
        number = listed.add(citation)
        if number is not None and citation.end is not None and len(ends) < MOST_MARKS:
            ends.add((citation.end, number))
    places = _FootnotePositions(text)
    marks = {(at, number) for end, number in ends if (at := places.near(end)) is not None}
    return Footnotes(listed.sources, tuple(FootnoteMark(at, number) for at, number in sorted(marks)), listed.left_out)


def with_marks(text: str, marks: Iterable[FootnoteMark], written: Callable[[int], str]) -> str:
    """The text with its numbers, each written by this function."""
    pieces: list[str] = []
    before = 0
    for mark in marks:
        pieces += [text[before : mark.at], written(mark.number)]
        before = mark.at
    return "".join((*pieces, text[before:]))


def host_of(url: str) -> str:
    """The host of an address of http or https, in ASCII; "" for anything else, which must not become a link."""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname if parts.scheme in ("http", "https") else None
        return "" if host is None or not _is_plain(url.strip()) else host.encode("idna").decode()
    except ValueError:  # also what is no name of a host
        return ""


def _is_plain(url: str) -> bool:
    """Whether a browser reads an address as we do: it passes over some control characters, and a backslash is a slash
    to it, so that it would go to another host than the one that is shown."""
    return not any(letter.isspace() or letter == "\\" or not letter.isprintable() for letter in url)


class _FootnotePositions:
    """The places of a text where a number may stand."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []
        self._usable: list[int] = []
        """For each line, the last line up to it that can carry a number; -1 is none."""
        self._lines: dict[int, _TextLine] = {}
        """The lines that were read already: a line may be long, and carry many numbers."""
        fence = ""
        start = 0
        for number, line in enumerate(text.split("\n")):
            opened = _FENCE.match(line)
            if fence:
                inside = True
                if opened and opened[1].startswith(fence) and not line[opened.end() :].strip():
                    fence = ""
            else:
                inside = opened is not None
                fence = opened[1] if opened else ""
            carries = not inside and not _ONLY_MARKS.fullmatch(line)
            self._starts.append(start)
            self._usable.append(number if carries else self._usable[-1] if number else -1)
            start += len(line) + 1

    def near(self, end: int) -> int | None:
        """The place for a number that belongs at this one; None if the text has none."""
        end = min(max(end, 0), len(self._text))
        line = bisect_right(self._starts, end) - 1
        found = self._line(line)
        if self._usable[line] != line or end <= found.first:
            usable = self._usable[line - 1 if self._usable[line] == line else line] if line else self._usable[0]
            if usable < 0 or usable == line:
                return None
            found, end = self._line(usable), len(self._text)
        return self._outside(found, min(end, found.last))

    def _line(self, number: int) -> _TextLine:
        if number not in self._lines:
            start = self._starts[number]
            stop = self._starts[number + 1] - 1 if number + 1 < len(self._starts) else len(self._text)
            self._lines[number] = _TextLine.of(self._text[start:stop], start)
        return self._lines[number]

    def _outside(self, line: _TextLine, at: int) -> int:
        before = bisect_left(line.unbroken, at, key=itemgetter(0)) - 1
        if before >= 0 and at < line.unbroken[before][1]:
            at = line.unbroken[before][1]
        if at == line.last and line.is_row:
            at -= 1
        while at > line.start and self._text[at - 1].isspace():
            at -= 1
        return at


class _TextLine(NamedTuple):
    start: int
    first: int
    """The offset at which the words begin, after marks such as that of an item."""
    last: int
    """The offset at which the words end."""
    unbroken: tuple[tuple[int, int], ...]
    """The ranges in which no number can stand, in order."""
    is_row: bool
    """Whether the line is a row of a table."""

    @classmethod
    def of(cls, text: str, start: int) -> Self:
        words = text.rstrip()
        prefix = _PREFIX.match(text)
        is_row = len(words) > 1 and words.lstrip().startswith("|") and words.endswith("|")
        spans = tuple((start + found.start(), start + found.end()) for found in _UNBROKEN.finditer(words))
        return cls(start, start + (prefix.end() if prefix else 0), start + len(words), spans, is_row)
