"""Bytes of a reply into frames: server-sent events, lines of JSON, or one document.

Pure: fed bytes as they come, cut anywhere. The same bytes give the same frames
however they were cut, each byte is looked at once, and a frame has a largest size.
What a frame means is the decoder's; whether it is JSON, `events` sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

from handrail.core.errors import ProtocolError

MAX_FRAME = 32 * 1024 * 1024

_ANY_END = re.compile(rb"\r\n|\r|\n")
_FIELD = re.compile(rb"[A-Za-z0-9_-]+")
_MARK = b"\xef\xbb\xbf"


class ReplyFrame(Struct, frozen=True):
    data: bytes
    event: str = ""
    """The name that SSE gave it, if any."""


class FrameParser(Protocol):
    def feed(self, chunk: bytes) -> Iterator[ReplyFrame]:
        """The frames that are whole now.

        Raises:
            ProtocolError: The bytes are not of this framing, or a frame is too large.
        """
        ...

    def finish(self) -> Iterator[ReplyFrame]:
        """The bytes have ended: the last frame, if it only lacked its end.

        Raises:
            ProtocolError: It was cut off before its data.
        """
        ...


def _too_large(largest: int) -> ProtocolError:
    return ProtocolError(f"one event of the reply is larger than {largest} bytes; ask for less")


class _FrameBuffer:
    """Collects the bytes of one frame and joins them once."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._largest:
            raise _too_large(self._largest)
        if piece:
            self._pieces.append(piece)

    def take(self) -> bytes:
        whole = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        return whole

    def __bool__(self) -> bool:
        return bool(self._pieces)


class SseFrames:
    """Server-sent events, as browsers read them, but nothing that looks like damage is passed over."""

    def __init__(self, largest: int = MAX_FRAME) -> None:
        self._largest = largest
        self._line = _FrameBuffer(largest)
        self._data: list[bytes] = []
        self._size = 0
        self._event = b""
        self._at_start = True
        self._after_return = False
        """A line feed that comes next belongs to the line end that was."""

    @property
    def is_between(self) -> bool:
        """Whether no event has begun of which more is to come."""
        return not (self._line or self._data or self._event or self._at_start or self._after_return)

    def feed(self, chunk: bytes) -> Iterator[ReplyFrame]:
        lines, rest = self._lines(chunk)
        largest = self._largest
        for line in lines:
            if len(line) > largest:
                raise _too_large(largest)
            if line.startswith(b"data: "):
                self._add(line[6:])
            elif line:
                self._field(line)
            elif self._data:
                yield self._taken()
            else:
                self._event = b""
        self._line.add(rest)

    def _lines(self, chunk: bytes) -> tuple[list[bytes], bytes]:
        """The lines that are whole now, and the beginning of the next."""
        if self._after_return and chunk.startswith(b"\n"):
            chunk, self._after_return = chunk[1:], False
        if not chunk:
            return [], b""
        self._after_return = chunk.endswith(b"\r")
        lines = _ANY_END.split(chunk) if b"\r" in chunk else chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            if self._line:
                self._line.add(lines[0])
                lines[0] = self._line.take()
            if self._at_start:
                self._at_start = False
                lines[0] = lines[0].removeprefix(_MARK)
        return lines, rest

    def finish(self) -> Iterator[ReplyFrame]:
        # JSON shows by itself whether it is whole; anything else that lacks its end may be half of a word.
        line = self._line.take()
        words = line.removeprefix(_MARK) if self._at_start else line
        if words and not words.startswith((b"data:", b":")):
            raise ProtocolError("the reply was cut off inside an event")
        if words:
            self._field(words)
        if self._event and not self._data:
            raise ProtocolError("the reply was cut off inside an event")
        if self._data:
            yield self._taken()

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._add(value)
            case b"event":
                self._event = value
            case b"":
                pass  # a comment, which keeps the connection alive
            case _ if not _FIELD.fullmatch(name):
                raise ProtocolError("the reply has a line that is not part of an event stream")

    def _add(self, value: bytes) -> None:
        self._size += len(value) + 1
        if self._size > self._largest:
            raise _too_large(self._largest)
        self._data.append(value)

    def _taken(self) -> ReplyFrame:
        data, event = self._data, self._event
        self._data, self._size, self._event = [], 0, b""
        return ReplyFrame(
            data[0] if len(data) == 1 else b"\n".join(data), event.decode(errors="replace") if event else ""
        )


class NdjsonFrames:
    """Cuts lines of JSON, one value on each; empty lines are skipped."""

    def __init__(self, largest: int = MAX_FRAME) -> None:
        self._line = _FrameBuffer(largest)
        self._at_start = True

    def feed(self, chunk: bytes) -> Iterator[ReplyFrame]:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._line.add(piece)
            yield from self.finish()
        self._line.add(rest)

    def finish(self) -> Iterator[ReplyFrame]:
        line = self._line.take().strip()
        if self._at_start and line:
            self._at_start, line = False, line.removeprefix(_MARK)
        if line:
            yield ReplyFrame(line)


class JsonFrames:
    """The whole body is one JSON document."""

    def __init__(self, largest: int = MAX_FRAME) -> None:
        self._body = _FrameBuffer(largest)

    def feed(self, chunk: bytes) -> Iterator[ReplyFrame]:
        self._body.add(chunk)
        yield from ()

    def finish(self) -> Iterator[ReplyFrame]:
        if body := self._body.take().strip().removeprefix(_MARK):
            yield ReplyFrame(body)


class DocumentOrEvents:
    """Asked for as events, called a document: its first character tells which of them it is."""

    def __init__(self, largest: int = MAX_FRAME) -> None:
        self._largest = largest
        self._mark = b""
        self._frames: FrameParser | None = None

    def feed(self, chunk: bytes) -> Iterator[ReplyFrame]:
        if self._frames is None:
            chunk = (self._mark + chunk).lstrip()
            begins = chunk.removeprefix(_MARK).lstrip()
            if not begins or _MARK.startswith(chunk):  # nothing yet but the mark, or a part of it
                self._mark = chunk.rstrip()
                return
            self._frames = (JsonFrames if begins.startswith((b"{", b"[")) else SseFrames)(self._largest)
        yield from self._frames.feed(chunk)

    def finish(self) -> Iterator[ReplyFrame]:
        if self._frames is not None:
            yield from self._frames.finish()
