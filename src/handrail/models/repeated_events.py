"""Events of a stream that differ from the one before them in one text only: of those only the text is read.

Most events of a long reply are like that: a few words, or a piece of arguments, and the same bytes around them. Then
the event is the same but for its text, and nothing else of it need be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

PieceOf = Callable[[Mapping[str, Any]], str | None]
"""The text of an event that only goes on with what the one before it began; None of any other."""

_MOST_VAIN = 16
"""Events whose like did not follow, after which nothing more is learned from the stream."""
_PADDING = re.compile(rb'"obfuscation": ?"([^"]*)"')
"""What OpenAI adds to every event, so that nobody can tell from its length what is said. Nobody reads it."""
_PROBE = "\x00 probe"
_PROBE_TEXT = b'"\\u0000 probe"'
_encode = msgspec.json.Encoder().encode
_decode_text = msgspec.json.Decoder(str).decode


class EventShape(Struct, frozen=True):
    """The bytes of an event up to its text with the opening quote, and from the closing quote to its end."""

    before: bytes
    after: bytes
    """To its end, or up to its padding with the opening quote."""
    last: bytes = b""
    """From the closing quote of the padding to the end, if it has padding."""

    def texts(self, chunk: bytes, at: int, largest: int) -> tuple[list[str], int]:
        """The texts of the events of this shape that begin at a place in the bytes, and where they end."""
        before, after, last = self.before, self.after, self.last
        inside, beyond = len(before) - 1, len(after)
        texts: list[str] = []
        while chunk.startswith(before, at):
            end = chunk.find(after, at + inside + 1)
            padding = end + beyond
            stop = padding if not last else chunk.find(last, padding) + len(last)
            if end < 0 or stop < padding or stop - at > largest:
                break
            try:
                text = _decode_text(chunk[at + inside : end + 1])
                if last:
                    _decode_text(chunk[padding - 1 : stop - len(last) + 1])
            except (msgspec.DecodeError, UnicodeError):
                break  # the end of the text is elsewhere, or there is none: whoever reads the whole event says it
            texts.append(text)
            at = stop
        return texts, at


class ShapeLearner:
    """Knows the shape of the last event, if the next may be like it."""

    def __init__(self, piece_of: PieceOf, read: Callable[[bytes], Mapping[str, Any] | None]) -> None:
        """`read` reads the bytes of one event."""
        self._piece_of: PieceOf | None = piece_of
        self._read = read
        self._vain = 0
        self.shape: EventShape | None = None

    @property
    def learns(self) -> bool:
        return self._piece_of is not None

    def was_used(self) -> None:
        self._vain = 0

    def learn(self, event: bytes, data: Mapping[str, Any]) -> None:
        """`data` is what this event says."""
        self.shape = None
        text = None if self._piece_of is None else self._piece_of(data)
        if text is None or self._piece_of is None:
            return
        self._vain += 1
        if self._vain > _MOST_VAIN:
            self._piece_of = None
            return
        before, found, after = event.partition(_encode(text))
        if not found:
            return
        padding = _PADDING.search(after)
        shape = EventShape(before + b'"', b'"' + after)
        if padding is not None:
            shape = EventShape(shape.before, b'"' + after[: padding.start(1)], after[padding.end(1) :])
        probe = _PROBE_TEXT[1:-1]
        other = self._read(shape.before + probe + shape.after + (probe + shape.last if shape.last else b""))
        if other is not None and self._piece_of(other) == _PROBE:
            self.shape = shape
