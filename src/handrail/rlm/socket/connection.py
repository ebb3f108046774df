"""One connection of an `LMHandler`: whole requests in, within their time and size; answers out."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass

from handrail.core.framing import FRAME_LIMIT, HEADER, FrameError, FrameSplitter, length_prefixed
from handrail.core.timeouts import time_limit
from handrail.http.request_guard import ConnectionMemory
from handrail.rlm.socket.wire import CHUNK
from handrail.rlm.values import LMResponse

_LINGER = 2.0
"""Seconds in which the rest of a request that is refused is read and dropped: a close with bytes unread would take
the refusal back."""
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""A machine that vanished is noticed after a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerLimits:
    frame_bytes: int = FRAME_LIMIT
    """The most bytes of a request or an answer."""
    held_bytes: int = 256 * 2**20
    """The most bytes of all requests together that have begun to arrive and are not answered yet."""
    connections: int = 256
    idle_seconds: float = 60.0
    """A connection may be open without asking anything."""
    grace_seconds: float = 1.0
    """The time that a new connection keeps its place, even if it has not asked yet and another wants the place."""
    arrival_seconds: float = 30.0
    """The time from the first byte of a request to its last."""
    departure_seconds: float = 30.0
    """The time for the client to take its answer."""


class HandlerBusy(Exception):
    """There is no memory left for a request."""


class HandlerConnection:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: HandlerLimits, place: ConnectionMemory
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._place = place
        self._frames = FrameSplitter(limits.frame_bytes)
        self._begun = 0
        """Bytes of a request that has not arrived whole."""
        self._early = b""
        """What came while the request before it was being answered."""
        self._clock = asyncio.get_running_loop().time
        self._idle_from: float | None = self._clock() + limits.grace_seconds
        """None while it has no answer to something that it began to ask."""
        writer.transport.set_write_buffer_limits(0)  # so that what is drained is on its way
        _keep_alive(writer.get_extra_info("socket"))

    @property
    def is_idle(self) -> bool:
        """Whether it could be told to go: it has its answers, or came a while ago and asks for nothing."""
        return self._idle_from is not None and self._clock() >= self._idle_from

    async def request(self) -> bytes | None:
        """The next request, or None if there is none, or it does not come in time.

        Raises:
            FrameError: It announced more than a frame may have, or broke off.
            HandlerBusy: Together with what others ask it is too much.
            OSError: The connection broke.
        """
        self._place.leave()
        data, self._early = self._early, b""
        if (body := self._fed(data)) is not None:
            return body
        if self._begun == 0:
            if self._idle_from is None:
                self._idle_from = self._clock()
            try:
                async with time_limit(self._limits.idle_seconds):
                    data = await self._reader.read(CHUNK)
            except TimeoutError:
                return None
            self._idle_from = None
            if not data:
                return None
            if (body := self._fed(data)) is not None:
                return body
        return await self._read_request()

    async def _read_request(self) -> bytes:
        try:
            async with time_limit(self._limits.arrival_seconds) as time:
                while data := await self._reader.read(CHUNK):
                    if (body := self._fed(data)) is not None:
                        return body
        except TimeoutError as error:
            if not time.expired():
                raise
            limit = self._limits.arrival_seconds
            raise FrameError(f"the request did not arrive within {limit:g} s") from error
        raise FrameError("the request broke off")

    def _fed(self, data: bytes) -> bytes | None:
        """The request, if that was its end."""
        self._begun += len(data)
        if not self._place.hold(self._begun):
            raise HandlerBusy("too much is being asked here at once; try again later")
        body = next(self._frames.feed(data), None)
        if body is not None:
            self._begun -= HEADER + len(body)
        return body

    async def gone(self) -> bool:
        """Wait until the client hangs up: True; or says too much before it has its answer: False, and that is kept."""
        try:
            while len(self._early) < CHUNK:
                data = await self._reader.read(CHUNK)
                if not data:
                    return True
                self._early += data
        except OSError:
            return True
        return False

    async def send(self, response: LMResponse) -> bool:
        """Whether the client took it in time."""
        self._writer.write(framed_response(response, self._limits.frame_bytes))
        try:
            async with time_limit(self._limits.departure_seconds):
                await self._writer.drain()
        except TimeoutError:
            return False
        return True

    async def refuse(self, response: LMResponse) -> None:
        """The last word to a client that may not have finished its own."""
        try:
            async with time_limit(_LINGER):
                self._writer.write(framed_response(response, self._limits.frame_bytes))
                self._writer.write_eof()
                while await self._reader.read(CHUNK):
                    pass
        except OSError:  # a timeout too: it had its chance
            self.abort()

    def abort(self) -> None:
        self._place.leave()
        self._writer.transport.abort()


def framed_response(response: LMResponse, limit: int) -> bytes:
    """An answer as bytes; one that is too large, or no JSON, as an answer that says so."""
    try:
        return length_prefixed(response.to_dict(), limit)
    except FrameError as error:
        return length_prefixed(LMResponse(error=f"the answer cannot be sent: {error}").to_dict())


def _keep_alive(peer: socket.socket) -> None:
    if peer.family == socket.AF_UNIX:
        return
    with suppress(OSError):  # it may have left already
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
