"""A server on a socket: uvicorn, with time for those who are slow to ask and an end that the program decides.

It imports uvicorn, so that only what serves imports it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from handrail.core.timeouts import time_limit
from handrail.http.request_guard import App
from handrail.http.strict_requests import StrictConnection

_MOMENT = 0.005
_HEAD = 64 * 1024
"""Bytes of a request's head."""


@contextlib.contextmanager
def sigterm_watch() -> Iterator[asyncio.Task[bool]]:
    """Done when SIGTERM comes, unless the program handles that itself."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if ours:
        loop.add_signal_handler(signal.SIGTERM, told.set)
    waiting = asyncio.ensure_future(told.wait())
    try:
        yield waiting
    finally:
        waiting.cancel()
        if ours:
            loop.remove_signal_handler(signal.SIGTERM)


def uvicorn_config(
    app: App, *, head_seconds: float, connections: int, grace: float, write: float = 30.0, **more: Any
) -> uvicorn.Config:
    """uvicorn's settings, with what a server of ours never does."""

    class Heads(SlowRequestProtocol):
        seconds = head_seconds
        most = 2 * connections
        write_seconds = write

    settings: dict[str, Any] = {
        "http": Heads,
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "limit_concurrency": connections,
        "h11_max_incomplete_event_size": _HEAD,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": grace,
        **more,
    }
    return uvicorn.Config(cast(Any, app), **settings)


class UvicornServer(uvicorn.Server):
    """Says when it is up. Signals are the program's, not uvicorn's."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._stop = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def main_loop(self) -> None:
        """Wait to be told, and not ten times a second whether one was."""
        while not self._stop.is_set():
            await self.on_tick(0)  # puts the date into the headers
            with contextlib.suppress(TimeoutError):
                async with time_limit(1):
                    await self._stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shuts down as uvicorn does, without its tenth of a second of waiting, and without waiting for clients that do
        not let go."""
        for server in (*self.servers, *(sockets or ())):
            server.close()
        open = self.server_state.connections
        for connection in tuple(open):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with time_limit(self.config.timeout_graceful_shutdown):
                while open or self.server_state.tasks:  # noqa: ASYNC110  # nothing says when they are gone
                    await asyncio.sleep(_MOMENT)
        for task in tuple(self.server_state.tasks):
            task.cancel()
        for connection in tuple(open):
            connection.transport.abort()

    def stop(self) -> None:
        self.should_exit = True
        self._stop.set()


async def stop_uvicorn(web: UvicornServer, serving: asyncio.Task[None], seconds: float) -> None:
    """Close what is left. A connection that cannot be closed in time is left to the end of the process."""
    web.stop()
    await asyncio.wait((serving,), timeout=seconds)
    if not serving.done():
        serving.cancel()
        await asyncio.wait((serving,))


class SlowReaderProtocol(asyncio.Protocol):
    """Cuts a connection off whose client takes nothing of what it is sent; else that would be kept for ever."""

    write_seconds: float
    _wire: asyncio.Transport
    _unless: asyncio.TimerHandle | None = None
    """Fires unless everything is taken before."""
    _left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wire = cast(asyncio.Transport, transport)
        self._wire.set_write_buffer_limits(0)  # whatever lies here unsent is noticed

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._look_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._look_no_more()

    def _look_later(self) -> None:
        self._left = self._wire.get_write_buffer_size()
        self._unless = asyncio.get_running_loop().call_later(self.write_seconds, self._look)

    def _look(self) -> None:
        if self._wire.get_write_buffer_size() < self._left:
            self._look_later()  # it is slow, and there
        else:
            self._wire.abort()

    def _look_no_more(self) -> None:
        if self._unless is not None:
            self._unless.cancel()
            self._unless = None


class SlowRequestProtocol(SlowReaderProtocol, H11Protocol):
    """Gives a request so long to say what it wants, and takes no more connections than it can bear. It refuses requests
    that a proxy before it could read in another way."""

    seconds: float
    most: int
    conn: StrictConnection
    _until: asyncio.TimerHandle | None = None

    def __init__(self, config: uvicorn.Config, *args: Any, **options: Any) -> None:
        super().__init__(config, *args, **options)
        self.conn = StrictConnection(h11.SERVER, config.h11_max_incomplete_event_size or _HEAD)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        self._arm()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:  # a head has begun and is not all there
            self._arm()
        else:
            self._disarm()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._disarm()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer has begun, and stays half an answer
            return self.transport.close()
        return super().send_400_response(f"{msg[:-1]}: {self.conn.refusal}" if self.conn.refusal else msg)

    def _arm(self) -> None:
        if self._until is None:
            self._until = self.loop.call_later(self.seconds, self.transport.close)

    def _disarm(self) -> None:
        if self._until is not None:
            self._until.cancel()
            self._until = None
