"""How an answer reaches the client: whole, or as a stream; and that nothing goes on for a client that is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from handrail.http.request_guard import ClientGone, run_while_connected
from handrail.node.gateways.frame_pipe import FramePipe
from handrail.node.gateways.gateway import GatewayLimits

STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # a proxy that collects a stream defeats it
}


class GatewayEventStream(Response):
    """The frames of a talk, until it ends or the client is gone; `leave` is told of either."""

    def __init__(
        self,
        leave: Callable[[], Awaitable[None]],
        pipe: FramePipe,
        alive: bytes,
        headers: dict[str, str],
        bounds: GatewayLimits,
    ) -> None:
        super().__init__(headers={**STREAM_HEADERS, **headers})
        del self.headers["content-length"]
        self._leave = leave
        self._pipe = pipe
        self._alive = alive
        self._bounds = bounds
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
        now, bounds = asyncio.get_running_loop().time, self._bounds
        sent = -1
        while telling is not None:
            await asyncio.sleep(min(bounds.keep_alive, bounds.write_seconds))
            if self._writing is None:
                if sent == self._sent:
                    self._pipe.push(self._alive)
                sent = self._sent
            elif now() - self._writing > bounds.write_seconds:
                telling.cancel()
                return
