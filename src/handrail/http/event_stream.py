"""How an answer reaches the client as a stream of server-sent events.

Between a run that speaks and a client that reads, frames that are ready go out together, and neither runs ahead.
It imports starlette, so that only what serves imports it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from handrail.core.timeouts import time_limit
from handrail.http.request_guard import ClientGone, run_while_connected

STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # a proxy that collects a stream defeats it
}


class FramePipe:
    """Frames from one writer to one reader."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._frames: list[bytes] = []
        self._size = 0
        self._closed = False
        self._filled = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, frame: bytes) -> None:
        """Hand over a frame; waits while the reader is behind by more than so many bytes."""
        self.push(frame)
        if self._size > self._most:
            self._room.clear()
            await self._room.wait()

    def push(self, frame: bytes) -> None:
        """Adds, like `put`, something so short that nobody need wait."""
        self._frames.append(frame)
        self._size += len(frame)
        self._filled.set()

    def close(self) -> None:
        """Says that nothing more comes."""
        self._closed = True
        self._filled.set()

    @property
    def ended(self) -> bool:
        """Whether everything was taken."""
        return self._closed and not self._frames

    async def filled(self) -> None:
        """Waits until there is something to take, or nothing more comes."""
        await self._filled.wait()

    async def wait(self, seconds: float) -> None:
        """Waits until there is something to take, or nothing more comes, or the time is up."""
        if self._filled.is_set():
            return
        try:
            async with time_limit(seconds):
                await self._filled.wait()
        except TimeoutError:
            return

    def take(self) -> bytes:
        """What there is, in one piece."""
        data = b"".join(self._frames)
        self._frames.clear()
        self._size = 0
        self._room.set()
        if not self._closed:
            self._filled.clear()
        return data


class FrameTape:
    """Keeps all frames of one writer for any number of readers, each of which reads from the beginning. Nobody
    waits."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._readers: list[FramePipe] = []
        self._closed = False

    async def put(self, frame: bytes) -> None:
        self._frames.append(frame)
        for reader in self._readers:
            reader.push(frame)

    def close(self) -> None:
        self._closed = True
        for reader in self._readers:
            reader.close()

    def reader(self) -> FramePipe:
        pipe = FramePipe(0)
        for frame in self._frames:
            pipe.push(frame)
        if self._closed:
            pipe.close()
        self._readers.append(pipe)
        return pipe

    def let_go(self, reader: FramePipe) -> None:
        """Forgets a reader that reads no more."""
        self._readers = [each for each in self._readers if each is not reader]

    @property
    def data(self) -> bytes:
        """All frames in one piece."""
        return b"".join(self._frames)


class EventStreamResponse(Response):
    """Sends the frames of an answer until it ends or the client is gone; `leave` is called after either.

    After `keep_alive` seconds of silence it sends `alive`. A client that does not take a piece within `write_seconds`
    is given up.
    """

    def __init__(
        self,
        leave: Callable[[], Awaitable[None]],
        pipe: FramePipe,
        alive: bytes,
        headers: dict[str, str],
        *,
        keep_alive: float,
        write_seconds: float,
    ) -> None:
        super().__init__(headers={**STREAM_HEADERS, **headers})
        del self.headers["content-length"]
        self._leave = leave
        self._pipe = pipe
        self._alive = alive
        self._keep_alive = keep_alive
        self._write_seconds = write_seconds
        self._sent = 0
        """Pieces so far."""
        self._writing: float | None = None
        """Since when the client is to take a piece."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            with contextlib.suppress(ClientGone, OSError):
                await run_while_connected(receive, self._tell(send))
        finally:
            await self._leave()

    async def _tell(self, send: Send) -> None:
        pipe, now = self._pipe, asyncio.get_running_loop().time
        watching = asyncio.create_task(self._watch(asyncio.current_task()))
        try:
            while not pipe.ended:
                await pipe.filled()
                await asyncio.sleep(0)  # what comes in the same moment goes out in the same piece
                self._writing = now()
                await send({"type": "http.response.body", "body": pipe.take(), "more_body": True})
                self._writing = None
                self._sent += 1
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            watching.cancel()

    async def _watch(self, telling: asyncio.Task[None] | None) -> None:
        """Say that somebody is there when nothing else is said, and give up a client that takes nothing.

        One clock for the whole stream: a timer for each piece would cost more than the piece.
        """
        now = asyncio.get_running_loop().time
        sent = -1
        while telling is not None:
            await asyncio.sleep(min(self._keep_alive, self._write_seconds))
            if self._writing is None:
                if sent == self._sent:
                    self._pipe.push(self._alive)
                sent = self._sent
            elif now() - self._writing > self._write_seconds:
                telling.cancel()
                return
