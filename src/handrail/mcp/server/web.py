"""What HTTP is made of: uvicorn speaks HTTP and the SDK speaks MCP.

Here is what neither does: a token, time for those who are slow to ask, a store of events
for each session, and an end in which calls that are under way are cancelled and answered
before the door is shut.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import h11
import uvicorn
from mcp.server import Server
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.middleware.cors import CORSMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from handrail.mcp.server.build import build
from handrail.mcp.server.events import Events
from handrail.mcp.server.guard import (
    App,
    Bounded,
    Checked,
    Doors,
    Ending,
    Keys,
    Receive,
    Scope,
    Send,
    header,
    turn_away,
)
from handrail.mcp.server.http import HttpLimits
from handrail.mcp.server.served import Served
from handrail.mcp.server.tasks.store import Tasks
from handrail.mcp.server.under_way import UnderWay

_RETRY_MS = 500
_CORS = ("content-type", "authorization", "mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name")


async def serve_web(
    served: Served,
    listener: socket.socket,
    *,
    address: str,
    path: str,
    doors: Doors,
    origins: Sequence[str],
    keys: Keys,
    ready: Callable[[str], None],
    limits: HttpLimits,
    tasks: Tasks,
) -> None:
    """Serve on a socket that is bound, until cancelled or told to end."""
    under_way = UnderWay()
    sessions = _Sessions(build(served, under_way=under_way, tasks=tasks), limits)
    ending = Ending(_guarded(_at(path, sessions.asgi_app), doors, keys, origins, limits))
    web = _Web(_config(ending, limits), lambda: ready(address))
    async with sessions.run():
        serving = asyncio.create_task(web.serve(sockets=[listener]))
        try:
            with _told_to_end() as told:
                await asyncio.wait((serving, told), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end(web, serving, under_way, ending, limits.grace)
    serving.result()


async def _end(web: _Web, serving: asyncio.Task[None], under_way: UnderWay, ending: Ending, grace: float) -> None:
    """Calls are answered first; then the streams that wait for nothing in particular are let go."""
    await under_way.end(grace)
    await ending.end(grace)
    web.stop()
    await asyncio.wait((serving,), timeout=2 * grace)


@contextlib.contextmanager
def _told_to_end() -> Iterator[asyncio.Task[bool]]:
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


def _config(app: App, limits: HttpLimits) -> uvicorn.Config:
    class Patient(_Patient):
        seconds = limits.head_seconds
        most = 2 * limits.connections

    return uvicorn.Config(
        cast(Any, app),
        http=Patient,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        h11_max_incomplete_event_size=64 * 1024,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=cast(int, limits.grace),
    )


class _Web(uvicorn.Server):
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
                async with asyncio.timeout(1):
                    await self._stop.wait()

    def stop(self) -> None:
        self.should_exit = True
        self._stop.set()


class _Patient(H11Protocol):
    """Gives a request so long to say what it wants, and takes no more connections than it can bear."""

    seconds: float
    most: int
    _until: asyncio.TimerHandle | None = None

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

    def _arm(self) -> None:
        if self._until is None:
            self._until = self.loop.call_later(self.seconds, self.transport.close)

    def _disarm(self) -> None:
        if self._until is not None:
            self._until.cancel()
            self._until = None


class _Sessions(StreamableHTTPSessionManager):
    """The SDK's, with a store of events for each session; its own would hold all sessions' in one."""

    def __init__(self, server: Server[Any], limits: HttpLimits) -> None:
        super().__init__(
            server,
            retry_interval=_RETRY_MS,
            session_idle_timeout=limits.idle_seconds,
            max_request_body_size=limits.body,
            max_sessions=limits.sessions,
            # Who may come in was checked before, by `guard.py`.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        self.event_store = Events()  # what is made next takes it over
        return super()._admit_session(requestor)


def _at(path: str, app: App) -> App:
    async def at(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != path:
            return await turn_away(receive, send, 404, f"there is nothing here; the server is at {path}")
        return await app(scope, receive, send)

    return at


def _guarded(app: App, doors: Doors, keys: Keys, origins: Sequence[str], limits: HttpLimits) -> App:
    """From the inside out: the body, the token, what pages may do, and the names."""
    inner: Any = Bounded(app, size=limits.body, seconds=limits.body_seconds)
    if keys:
        inner = _Keyed(cast(App, AuthContextMiddleware(inner)), keys)
    if origins:
        inner = CORSMiddleware(
            inner,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=[*_CORS, "last-event-id"],
            expose_headers=["mcp-session-id"],
        )
    return Checked(inner, doors)


class _Keyed:
    """Asks for a token, and says to those behind it whose it was."""

    def __init__(self, app: App, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        holder = self._keys.holder(header(scope, b"authorization"))
        if holder is None:
            why = "send the token of this server"
            return await turn_away(receive, send, 401, why, (b"www-authenticate", b"Bearer"))
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=holder, scopes=[], subject=holder))
        return await self._app(scope, receive, send)
