"""What crosses between the program and the model's process: JSON, in frames of four length bytes and a body.

Nothing here opens or reads a pipe.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

FRAME_LIMIT = 64 * 2**20
_HEADER = 4
T = TypeVar("T")


class Start(Struct, frozen=True, tag="start", kw_only=True):
    """The first frame: what to load, and within which bounds."""

    weights: str
    adapter: str | None
    template: str | None
    folder: str
    """Private and empty. The engine insists on listening somewhere; its socket is here for a moment."""
    threads: int
    slots: int
    context: int
    """Tokens that one conversation may have."""
    queue: int
    memory_bytes: int


class Ask(Struct, frozen=True, tag="ask"):
    number: int
    body: dict[str, Any]


class Cancel(Struct, frozen=True, tag="cancel"):
    number: int


class Loading(Struct, frozen=True, tag="loading"):
    """What the process is busy with before it can answer anybody."""

    stage: str


class Ready(Struct, frozen=True, tag="ready"):
    pass


class Broken(Struct, frozen=True, tag="broken"):
    """The model could not be loaded, and the process ends."""

    why: str


class Chunk(Struct, frozen=True, tag="chunk"):
    number: int
    data: dict[str, Any]


class Ended(Struct, frozen=True, tag="ended"):
    """The reply is over, or was cancelled."""

    number: int


class Failed(Struct, frozen=True, tag="failed"):
    number: int
    kind: Literal["busy", "refused"]
    why: str


ToChild = Start | Ask | Cancel
Reply = Chunk | Ended | Failed
FromChild = Loading | Ready | Broken | Reply

_to_child: msgspec.json.Decoder[ToChild] = msgspec.json.Decoder(ToChild)
_from_child: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)


class FrameError(Exception):
    """Bytes that are no frame, or a frame that is too large."""


def frame(message: ToChild | FromChild) -> bytes:
    """
    Raises:
        FrameError: It is not JSON, or larger than the limit.
    """
    try:
        body = msgspec.json.encode(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"it is not JSON: {error}") from error
    if len(body) > FRAME_LIMIT:
        raise FrameError(f"it is {len(body)} bytes long, and at most {FRAME_LIMIT} can cross")
    return len(body).to_bytes(_HEADER, "big") + body


class Frames:
    """Cuts a stream of bytes into the bodies of its frames, however the bytes arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """
        Raises:
            FrameError: A frame says that it is larger than the limit. Its body is not waited for.
        """
        self._buffer += data
        while len(self._buffer) >= _HEADER:
            length = int.from_bytes(self._buffer[:_HEADER], "big")
            if length > FRAME_LIMIT:
                raise FrameError(f"a frame of {length} bytes was announced, and at most {FRAME_LIMIT} can cross")
            if len(self._buffer) < _HEADER + length:
                return
            body = bytes(self._buffer[_HEADER : _HEADER + length])
            del self._buffer[: _HEADER + length]
            yield body


def to_child(body: bytes) -> ToChild:
    return _read(_to_child, body)


def from_child(body: bytes) -> FromChild:
    """
    Raises:
        FrameError: The body is no message.
    """
    return _read(_from_child, body)


def _read(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FrameError(f"a message could not be read: {error}") from error
