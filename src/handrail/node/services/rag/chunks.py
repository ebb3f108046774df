"""A document in pieces that a model can read: whole sentences, cut at headings, each with some of the one before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

SIZE = 1000
OVERLAP = 150

_HEADING = re.compile(r"\n#{1,6} ")
_SENTENCE_END = re.compile(r"[.!?…][\"'»“”)\]]?(\s+)")


class DocumentChunk(NamedTuple):
    text: str
    page: int | None


def split_into_chunks(
    pages: Sequence[str], *, paged: bool, size: int = SIZE, overlap: int = OVERLAP
) -> Iterator[DocumentChunk]:
    """The chunks of all pages in order. None is longer than `size`, and none goes over the end of a page.

    Nothing but white space is lost: every word of a page is in a chunk.
    """
    for number, page in enumerate(pages, 1):
        for text in _of_page(page, size, overlap):
            yield DocumentChunk(text, number if paged else None)


def _of_page(page: str, size: int, overlap: int) -> Iterator[str]:
    held: list[str] = []
    length = 0
    for piece in _pieces(page, size):
        # A heading begins a chunk, unless what is above it would be next to nothing.
        begins = _HEADING.match(piece) is not None and length >= size // 4
        if held and (begins or length + len(piece) > size):
            yield "".join(held).strip()
            held = [] if begins else _tail(held, min(overlap, size - len(piece)))
            length = sum(map(len, held))
        held.append(piece)
        length += len(piece)
    if held:
        yield "".join(held).strip()


def _pieces(page: str, size: int) -> Iterator[str]:
    """Headings and sentences, each behind the white space that goes before it."""
    for line in page.splitlines():
        before = "\n"
        for sentence in _sentences(line):
            for part in _parts(" ".join(sentence.split()), size - 1):
                yield before + part
                before = " "


def _sentences(line: str) -> Iterator[str]:
    """Yields one sentence at a time: a document may be one line, and other threads wait while a pattern is matched."""
    start = 0
    for end in _SENTENCE_END.finditer(line):
        yield line[start : end.start(1)]
        start = end.end()
    yield line[start:]


def _parts(sentence: str, size: int) -> Iterator[str]:
    """A sentence, or where it is too long, parts of it that end with a word if they can."""
    at = 0
    while len(sentence) - at > size:
        cut = sentence.rfind(" ", at + 1, at + size + 1)
        cut = at + size if cut < 0 else cut
        yield sentence[at:cut]
        at = cut + 1 if sentence[cut] == " " else cut
    if at < len(sentence):
        yield sentence[at:]


def _tail(held: Sequence[str], room: int) -> list[str]:
    """The last pieces, as many as fit: the next chunk begins with them."""
    taken = 0
    for piece in reversed(held):
        room -= len(piece)
        if room < 0:
            break
        taken += 1
    return list(held[len(held) - taken :])
