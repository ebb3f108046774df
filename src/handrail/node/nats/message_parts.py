"""Payloads over the server's limit: cut into parts, put together again, or given up."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from handrail.core.errors import BusError

MOST = 64 * 1024 * 1024
"""Bytes of one message, however many parts it comes in."""
_MARK = b"\x00"
"""Begins a part; JSON begins otherwise."""
_HEAD = struct.Struct(">c16sII32s")
_KEEP = 60.0
"""Seconds without a part after which the rest is no longer waited for."""
_OPEN = 1_000
"""Messages that are put together at once; for one more, the one that was begun first is given up."""


def split_payload(payload: bytes, limit: int) -> Iterator[bytes]:
    """The payload as messages of at most `limit` bytes: itself, or numbered parts with its checksum.

    Raises:
        BusError: It is more than may travel at all (`bad_request`).
    """
    if len(payload) <= limit:
        yield payload
        return
    if len(payload) > MOST:
        raise BusError("bad_request", f"a message of {len(payload)} bytes is more than {MOST} bytes; send it as a blob")
    size = limit - _HEAD.size
    if size < 1:
        raise BusError("internal_error", f"the NATS server takes {limit} bytes at a time, which is too few")
    count = -(-len(payload) // size)
    name, checksum = os.urandom(16), hashlib.sha256(payload).digest()
    for index in range(count):
        head = _HEAD.pack(_MARK, name, index, count, checksum)
        yield head + payload[index * size : (index + 1) * size]


@dataclass(slots=True, eq=False)
class _PartialMessage:
    count: int
    checksum: bytes
    touched: float
    parts: list[bytes] = field(default_factory=list)
    size: int = 0


class PartAssembler:
    """Parts of several messages, as they arrive. What is out of order, too much or never completed is dropped:
    the ends of a call notice, for they count what they send."""

    def __init__(self, clock: Callable[[], float], *, most: int = 4 * MOST) -> None:
        self._clock = clock
        self._most = most
        self._open: dict[bytes, _PartialMessage] = {}
        self._held = 0

    def feed(self, data: bytes) -> bytes | None:
        """A whole payload, once its last part is here. What is no part is one already."""
        if not data.startswith(_MARK):
            return data
        if len(data) < _HEAD.size:
            return None
        _, name, index, count, checksum = _HEAD.unpack_from(data)
        now = self._clock()
        whole = self._open.get(name)
        if whole is None:
            self._forget(now)
            if index != 0 or count < 1:
                return None
            if len(self._open) >= _OPEN:
                self._drop(next(iter(self._open)))
            whole = self._open[name] = _PartialMessage(count, checksum, now)
        part = data[_HEAD.size :]
        fits = index == len(whole.parts) and (count, checksum) == (whole.count, whole.checksum)
        fits = fits and bool(part) and whole.size + len(part) <= MOST
        if not fits or self._held + len(data) > self._most:
            self._drop(name)
            return None
        whole.parts.append(part)
        whole.size += len(part)
        whole.touched = now
        self._held += len(data)
        if len(whole.parts) < whole.count:
            return None
        self._drop(name)
        payload = b"".join(whole.parts)
        return payload if hashlib.sha256(payload).digest() == whole.checksum else None

    def _drop(self, name: bytes) -> None:
        whole = self._open.pop(name)
        self._held -= whole.size + len(whole.parts) * _HEAD.size

    def _forget(self, now: float) -> None:
        for name in [name for name, whole in self._open.items() if now - whole.touched > _KEEP]:
            self._drop(name)
