"""Cutting a text where a reader would: between paragraphs, else lines, else sentences, else words. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

_ENDS = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"\n\s*"),
    re.compile(r"(?<=[.!?…。！？])[\"'”’)\]]*\s+|(?<=[。！？])"),
    re.compile(r"\s+"),
)
"""What ends a paragraph, a line, a sentence, a word; the best place first."""

MARGIN = 10
"""What a number and an empty line take beside a note."""


def cut_into_pieces(text: str, size: int, overlap: int = 0) -> list[str]:
    """The text in pieces of at most so many characters. Joined without their overlaps they are the text."""
    cut: list[str] = []
    at = 0
    while at < len(text):
        end = at + _length(text[at : at + size + 1], size)
        cut.append(text[at:end])
        if end >= len(text):
            break
        at = max(end - overlap, at + 1)
    return cut or [text]


def bundle_notes(notes: Sequence[str], size: int) -> list[list[str]]:
    """Notes in order, in groups of at most so many characters, at least two in each but the last.

    None of the notes has more than half of that, less its margin.
    """
    grouped: list[list[str]] = []
    room = 0
    for note in notes:
        needed = len(note) + MARGIN
        if grouped and (needed <= room or len(grouped[-1]) < 2):
            grouped[-1].append(note)
            room -= needed
        else:
            grouped.append([note])
            room = size - needed
    return grouped


def shortened_text(text: str, size: int) -> str:
    """The text, or as much of its beginning as fits, up to a good end."""
    return text if len(text) <= size else text[: _length(text, size)].rstrip()


def _length(text: str, size: int) -> int:
    """The length of text to take: all that fits, up to the best end that leaves at least half of it."""
    if len(text) <= size:
        return len(text)
    for ending in _ENDS:
        last = max((match.end() for match in ending.finditer(text, 0, size)), default=0)
        if last >= size // 2:
            return last
    # Within a word: not between a letter and its accents, nor in the middle of an emoji.
    end = size
    while end > size // 2 and _joined(text[end]):
        end -= 1
    return end


def _joined(letter: str) -> bool:
    return unicodedata.combining(letter) != 0 or letter in "\u200d\ufe0f"


def numbered_notes(notes: Iterable[str]) -> Iterator[str]:
    for at, note in enumerate(notes, 1):
        yield f"[{at}] {note}"
