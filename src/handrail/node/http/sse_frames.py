"""Server-sent events as frames: any way of cutting the bytes gives the same ones."""

from __future__ import annotations

from handrail.core.jsontext import MAX_DEPTH, JSONTextError, kind_of, parse_lightly
from handrail.http import BadHttpAnswer
from handrail.node.bus.stream_frame import StreamFrame

LARGEST = 16 * 1024 * 1024
"""Bytes of one event."""
_DEEPEST = 2 * MAX_DEPTH
"""A value may be as deep as any, and there is something around it."""


class SseFrameDecoder:
    """What a node writes: `id`, `event` and `data` in one line each, an empty line, and comments in between."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._rest = bytearray()
        self._scanned = 0
        self._fields: dict[bytes, bytes] = {}
        self._size = 0
        """Bytes of these fields."""

    def feed(self, chunk: bytes) -> list[StreamFrame]:
        """The frames that are whole now.

        Raises:
            BadHttpAnswer: It is no stream of frames.
        """
        self._rest += chunk
        end = self._rest.rfind(b"\n", self._scanned)
        if end < 0:
            self._scanned = len(self._rest)
            self._bound(len(self._rest) - self._rest.endswith(b"\r"))
            return []
        lines = bytes(self._rest[:end]).split(b"\n")
        del self._rest[: end + 1]
        self._scanned = len(self._rest)
        return [frame for line in lines if (frame := self._line(line.removesuffix(b"\r"))) is not None]

    def _line(self, line: bytes) -> StreamFrame | None:
        self._bound(len(line))
        if not line:
            fields, self._fields, self._size = self._fields, {}, 0
            return _frame(fields) if fields else None
        name, _, value = line.partition(b":")
        if name:
            if name in self._fields:
                raise BadHttpAnswer("an event has a field twice")
            self._fields[name] = value.removeprefix(b" ")
            self._size += len(line)
        return None

    def _bound(self, more: int) -> None:
        if self._size + more > self._largest:
            raise BadHttpAnswer(f"an event has more than {self._largest:,} bytes")


def _frame(fields: dict[bytes, bytes]) -> StreamFrame | None:
    if b"data" not in fields:
        return None
    try:
        data = parse_lightly(fields[b"data"], max_depth=_DEEPEST)
        if not isinstance(data, dict):
            raise ValueError(f"{kind_of(data)} is not a frame")
        return StreamFrame(fields.get(b"event", b"message").decode(), data, int(fields.get(b"id", b"0")))
    except (JSONTextError, ValueError) as error:
        raise BadHttpAnswer("an event cannot be read") from error
