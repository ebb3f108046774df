"""One connection, and one request and its answer on it at a time.

Answers are given out as they come, and a reader that takes its time holds the
service back. Whoever waits is told when the service is silent for too long.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import httptools

_AHEAD = 256 * 1024
"""Bytes that may lie here unread before the service is made to wait."""
_HEAD = 64 * 1024
"""Bytes of a head, and of the trailers after a body."""
_STEP = 1024 * 1024
"""Bytes that are unpacked at once, of an answer that is compressed."""
_UNPACKED = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""The `wbits` by which zlib reads an encoding."""


class HttpNotConnected(OSError):
    """There is no connection, so nothing was sent."""


class BadHttpAnswer(Exception):
    """What came is not HTTP, or was cut off."""


class HttpConnection(asyncio.Protocol):
    """Made by the event loop. `ask`, then `read` until it gives nothing; then it can be asked again."""

    def __init__(self, silence: float | None, total: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._silence = silence
        self._total = total
        self._transport: Any = None
        self._parser: httptools.HttpResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.idle_since = 0.0
        self.closed = False
        self._begin()

    def _begin(self) -> None:
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self._before_head = 0
        self._head_size = 0
        self._has_head = False
        self._bodiless = False
        self._complete = False
        self._reusable = False
        self._to_its_close = False
        self._chunks: list[bytes] = []
        self._ahead = 0
        self._paused = False
        self._packing: int | None = None
        self._inflate: Any = None
        self._failed: Exception | None = None

    # ── asking ───────────────────────────────────────────────────────────────────────

    async def ask(self, head: bytes, body: bytes) -> None:
        """Send a request and wait until the head of its answer has come.

        Raises:
            TimeoutError, OSError, BadHttpAnswer: It does not come.
        """
        self._begin()
        self._bodiless = head.startswith(b"HEAD ")
        self._parser = httptools.HttpResponseParser(self)
        self._began = self._heard = self._loop.time()
        if len(body) <= _AHEAD:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        while not self._has_head:
            await self._wait()

    async def read(self) -> bytes:
        """What has come of the body; nothing when it has ended.

        Raises:
            TimeoutError, OSError, BadHttpAnswer: It breaks off.
        """
        while True:
            data = b""
            if self._inflate is not None and self._inflate.unconsumed_tail:
                data = self._unpacked(self._inflate.unconsumed_tail)
            elif self._chunks:
                data = self._taken() if self._inflate is None else self._unpacked(self._taken())
            elif not self._complete:
                await self._wait()
            elif self._inflate is not None and not self._inflate.eof:
                raise BadHttpAnswer("the compressed answer was cut off")
            else:
                return b""
            if data:
                return data

    def _taken(self) -> bytes:
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks, self._ahead = [], 0
        if self._paused:
            self._paused = False
            self._heard = self._loop.time()
            if not self.closed:
                self._transport.resume_reading()
        return data

    def _unpacked(self, data: bytes) -> bytes:
        try:
            unpacked: bytes = self._inflate.decompress(data, _STEP)
        except zlib.error as error:
            raise BadHttpAnswer(f"the answer is not compressed as it says: {error}") from None
        return unpacked

    def release(self) -> bool:
        """The exchange is over: whether the connection can be used again. If not, it is closed."""
        if self.closed or not self._complete or not self._reusable:
            self.abort()
            return False
        self._parser = None  # its timer stays for the next request, which ends later than this one would have
        if self._paused:
            self._transport.resume_reading()
        self.idle_since = self._loop.time()
        return True

    def leave(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._parser = None

    def abort(self) -> None:
        self.closed = True
        if not self._complete:
            self._fail(ConnectionAbortedError("the connection was closed from this side"))
        self.leave()
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self) -> None:
        if self._failed is not None:
            raise self._failed
        self._watch()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _patience(self) -> float:
        """Seconds until there is something to complain of."""
        ends = [] if self._silence is None else [self._heard + self._silence]
        if self._total is not None:
            ends.append(self._began + self._total)
        return min(ends) - self._loop.time()

    def _watch(self) -> None:
        """Set the timer, unless it runs or there is no limit."""
        if self._timer is None and (self._silence is not None or self._total is not None):
            self._timer = self._loop.call_later(max(self._patience(), 0.0), self._look)

    def _look(self) -> None:
        self._timer = None
        if self._parser is None:
            return  # nobody waits for anything
        if self._patience() > 0:
            self._watch()
        elif self._waiter is not None:  # else whoever waits next sets the timer again
            silent = self._loop.time() - self._heard
            mute = self._silence is not None and silent >= self._silence
            self._fail(TimeoutError(f"nothing came for {silent:.1f} s" if mute else f"not ended in {self._total:g} s"))

    def _fail(self, error: Exception) -> None:
        self._failed = self._failed or error
        self._wake()

    # ── the event loop's side ────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if self._parser is None or self._complete:
            self.abort()  # it speaks without being asked
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            why = error.__context__ if isinstance(error.__context__, BadHttpAnswer) else error
            self._fail(BadHttpAnswer(f"it does not speak HTTP as it should: {why}"))
            self.abort()  # which does not unsay what came before
        except httptools.HttpParserUpgrade:
            self._fail(BadHttpAnswer("it wants to speak another protocol"))
            self.abort()
        if not self._has_head:
            self._before_head += len(data)
            if self._before_head > _HEAD:
                self._fail(BadHttpAnswer("its headers are endless"))
                self.abort()
        self._wake()

    def eof_received(self) -> None:
        self.closed = True  # from here on the loop sends nothing more; `connection_lost` follows

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._parser is None or self._complete:
            self.leave()
            return
        if self._to_its_close and exc is None:
            self._complete = True
        else:
            where = "in the middle of its answer" if self._has_head else "without an answer"
            self._fail(exc if isinstance(exc, OSError) else ConnectionResetError(f"it closed the connection {where}"))
        self._wake()

    # ── the parser's side ────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self._complete:
            raise BadHttpAnswer("it answers twice")
        self.reason = ""

    def on_status(self, piece: bytes) -> None:
        self.reason += piece.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        if self._head_size > _HEAD:
            raise BadHttpAnswer("its headers are endless")
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        if self._parser is None:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:
            return
        self._to_its_close = (
            "content-length" not in self.headers
            and "transfer-encoding" not in self.headers
            and self.status not in (204, 304)
        )
        self._packing = _UNPACKED.get(self.headers.get("content-encoding", "").strip().lower())
        self._has_head = True
        self._complete = self._bodiless  # whatever its headers say of a body

    def on_body(self, body: bytes) -> None:
        if self._bodiless:
            return
        if self._packing is not None and self._inflate is None:
            self._inflate = zlib.decompressobj(self._packing)
        self._chunks.append(body)
        self._ahead += len(body)
        if self._ahead > _AHEAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if not self._has_head:  # only word of an answer that is to come
            self.headers, self._head_size = {}, 0
            return
        self._complete = True
        self._reusable = self._parser is not None and self._parser.should_keep_alive()
