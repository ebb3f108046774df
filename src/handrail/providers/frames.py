"""Bytes of a reply into frames: server-sent events, lines of JSON, or one document.

Pure: fed bytes as they come, cut anywhere. The same bytes give the same frames
however they were cut, each byte is looked at once, and a frame has a largest size.
What a frame means is the decoder's; whether it is JSON is the transport's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from handrail.core.errors import ProtocolError

MAX_FRAME = 32 * 1024 * 1024

_ANY_END = re.compile(rb"\r\n|\r|\n")
_FIELD = re.compile(rb"[A-Za-z0-9_-]+")
_MARK = b"\xef\xbb\xbf"


class Frame(NamedTuple):
    data: bytes
    event: str = ""
    """The name that SSE gave it, if any."""


class Frames(Protocol):
    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames that are whole now.

        Raises:
            ProtocolError: The bytes are not of this framing, or a frame is too large.
        """
        ...

    def finish(self) -> Iterator[Frame]:
        """The bytes have ended: the last frame, if it only lacked its end.

        Raises:
            ProtocolError: It was cut off before its data.
        """
        ...


class _Pieces:
    """What has come of a frame so far, joined once."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._largest:
            raise ProtocolError(f"one event of the reply is larger than {self._largest} bytes; ask for less")
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
        self._line = _Pieces(largest)
        self._data: list[bytes] = []
        self._size = 0
        self._event = b""
        self._at_start = True
        self._after_return = False
        """A line feed that comes next belongs to the line end that was."""

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        if not chunk:
            return
        if self._after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_return = chunk.endswith(b"\r")
        *ended, rest = _ANY_END.split(chunk)
        for piece in ended:
            self._line.add(piece)
            yield from self._whole_line(self._line.take())
        self._line.add(rest)

    def finish(self) -> Iterator[Frame]:
        # JSON shows by itself whether it is whole; anything else that lacks its end may be half of a word.
        line = self._line.take()
        words = line.removeprefix(_MARK) if self._at_start else line
        if words and not words.startswith((b"data:", b":")):
            raise ProtocolError("the reply was cut off inside an event")
        if words:
            yield from self._whole_line(line)
        if self._event and not self._data:
            raise ProtocolError("the reply was cut off inside an event")
        yield from self._whole_event()

    def _whole_line(self, line: bytes) -> Iterator[Frame]:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_MARK)
        if not line:
            yield from self._whole_event()
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._size += len(value) + 1
                if self._size > self._largest:
                    raise ProtocolError(f"one event of the reply is larger than {self._largest} bytes; ask for less")
                self._data.append(value)
            case b"event":
                self._event = value
            case b"":
                pass  # a comment, which keeps the connection alive
            case _ if not _FIELD.fullmatch(name):
                raise ProtocolError("the reply has a line that is no part of an event stream")

    def _whole_event(self) -> Iterator[Frame]:
        data, event = self._data, self._event
        self._data, self._size, self._event = [], 0, b""
        if data:
            yield Frame(b"\n".join(data), event.decode(errors="replace"))


class NdjsonFrames:
    """One JSON value on each line; empty lines are passed over."""

    def __init__(self, largest: int = MAX_FRAME) -> None:
        self._line = _Pieces(largest)

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._line.add(piece)
            yield from self.finish()
        self._line.add(rest)

    def finish(self) -> Iterator[Frame]:
        if line := self._line.take().strip():
            yield Frame(line)


class JsonFrames:
    """The whole body is one JSON document."""

    def __init__(self, largest: int = MAX_FRAME) -> None:
        self._body = _Pieces(largest)

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        self._body.add(chunk)
        yield from ()

    def finish(self) -> Iterator[Frame]:
        if body := self._body.take().strip().removeprefix(_MARK):
            yield Frame(body)
