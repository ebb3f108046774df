"""Messages between processes: JSON, in frames of four length bytes (big-endian) and a body.

Nothing here opens or reads a socket or a pipe. Code, pickles and live objects never cross.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

FRAME_LIMIT = 64 * 2**20
HEADER = 4


class FrameError(Exception):
    """Bytes that are no frame, or a frame that is too large."""


def length_prefixed(message: Struct | dict[str, Any], limit: int = FRAME_LIMIT) -> bytes:
    """A message as bytes.

    Raises:
        FrameError: It is not JSON, or larger than the limit.
    """
    try:
        body = msgspec.json.encode(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"it is not JSON: {error}") from error
    if len(body) > limit:
        raise FrameError(f"it is {len(body)} bytes long, and at most {limit} can cross between processes")
    return len(body).to_bytes(HEADER, "big") + body


class FrameSplitter:
    """Cuts a stream of bytes into the bodies of its frames, however the bytes arrive."""

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take bytes in and give out every frame that is now whole.

        Raises:
            FrameError: A frame says that it is larger than the limit. Its body is not waited for.
        """
        self._buffer += data
        while len(self._buffer) >= HEADER:
            length = int.from_bytes(self._buffer[:HEADER], "big")
            if length > self._limit:
                raise FrameError(f"a frame of {length} bytes was announced, and at most {self._limit} can cross")
            if len(self._buffer) < HEADER + length:
                return
            with memoryview(self._buffer) as view:  # a slice of the buffer itself would be one copy more
                body = bytes(view[HEADER : HEADER + length])
            del self._buffer[: HEADER + length]
            yield body
