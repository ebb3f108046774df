"""Bytes cut into lines, in time that grows with their number and in memory that does not.

A line that is too long is not kept: its beginning and its end are, because the
id of the request that it answers stands in one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

_HEAD = 4096
_TAIL = 1024
_ENDLESS = 16
"""A line this many times too long is taken for one that never ends."""

_ID = rb'"id"\s*:\s*(-?\d{1,100}|"(?:[^"\\]|\\.){0,200}")'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_ANSWER_HEAD = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID + rb"\s*,(?!\s*\"method\")")
_ANSWER_TAIL = re.compile(_ID + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*$")
_NO_ANSWER = re.compile(
    rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?(?:" + _ID + rb"\s*,\s*)?(?:" + _VERSION + rb"\s*,\s*)?\"method\"\s*:"
)


class EndlessLine(Exception):
    """A line has no end."""


@dataclass(frozen=True, slots=True)
class OverlongLine:
    """What is left of a line that was too long."""

    head: bytes
    tail: bytes = b""


class McpLineCutter:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None
        """Of a line that is being passed over."""
        self._tail = b""

    def feed(self, data: bytes) -> Iterator[bytes | OverlongLine]:
        """Take bytes in and give out every line that is now whole.

        Raises:
            Endless: One goes on and on. Nothing more should be fed.
        """
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end])
            yield self._line()
            start = end + 1
        self._add(data[start:])

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._head is not None:
            self._tail = (self._tail + piece)[-_TAIL:]
            if self._size > self._limit * _ENDLESS:
                raise EndlessLine
        elif self._size > self._limit:
            whole = b"".join([*self._parts, piece])
            self._head, self._tail, self._parts = whole[:_HEAD], whole[-_TAIL:], []
        elif piece:
            self._parts.append(piece)

    def _line(self) -> bytes | OverlongLine:
        if self._head is not None:
            line: bytes | OverlongLine = OverlongLine(self._head, self._tail)
        else:
            line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._size, self._head, self._tail = [], 0, None, b""
        return line


def answered_id(line: OverlongLine) -> int | str | None:
    """Which request a line answers, as far as can be told without reading all of it."""
    if _NO_ANSWER.match(line.head):
        return None
    found = _ANSWER_HEAD.match(line.head) or _ANSWER_TAIL.search(line.tail)
    if found is None:
        return None
    try:
        return msgspec.json.decode(found[1], type=int | str)
    except (msgspec.DecodeError, UnicodeError):
        return None


def is_request_or_notice(line: OverlongLine) -> bool:
    """Whether it is a request or a notice of the server's own."""
    return _NO_ANSWER.match(line.head) is not None
