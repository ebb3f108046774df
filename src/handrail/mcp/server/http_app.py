"""What HTTP is made of: uvicorn speaks HTTP and the SDK speaks MCP.

Here is what neither does: a token, time for those who are slow to ask, a store of events
for each session, and an end in which calls that are under way are cancelled and answered
before the door is shut.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, cast

import uvicorn
from mcp.server import Server
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import JSONRPCMessage
from starlette.middleware.cors import CORSMiddleware

from handrail.core.timeouts import time_limit
from handrail.http.request_guard import (
    AccessKeys,
    AccessMiddleware,
    AccessRequirements,
    App,
    BodyLimitMiddleware,
    Receive,
    Scope,
    Send,
    header,
    receive_until_shutdown,
    refuse_unread_request,
)
from handrail.http.uvicorn_server import UvicornServer, sigterm_watch, stop_uvicorn, uvicorn_config
from handrail.mcp.sdk_internals import before_each_session
from handrail.mcp.server.build import build_mcp_server
from handrail.mcp.server.calls_in_progress import CallsInProgress
from handrail.mcp.server.definition import McpServerDefinition
from handrail.mcp.server.http import HttpLimits
from handrail.mcp.server.tasks.store import TaskStore

_RETRY_MS = 500
_CORS = ("content-type", "authorization", "mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name")


async def serve_web(
    served: McpServerDefinition,
    listener: socket.socket,
    *,
    address: str,
    path: str,
    doors: AccessRequirements,
    origins: Sequence[str],
    keys: AccessKeys,
    ready: Callable[[str], None],
    limits: HttpLimits,
    tasks: TaskStore,
) -> None:
    """Serve on a socket that is bound, until cancelled or told to end."""
    under_way = CallsInProgress()
    sessions = _sessions(build_mcp_server(served, under_way=under_way, tasks=tasks), limits)
    ending = McpServerShutdown(_guarded(_at(path, sessions.asgi_app), doors, keys, origins, limits))
    web = UvicornServer(_config(ending, limits), lambda: ready(address))
    async with sessions.run():
        serving = asyncio.create_task(web.serve(sockets=[listener]))
        try:
            with sigterm_watch() as told:
                await asyncio.wait((serving, told), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end(web, serving, under_way, ending, limits.grace)
    if not serving.cancelled():
        serving.result()


async def _end(
    web: UvicornServer, serving: asyncio.Task[None], under_way: CallsInProgress, ending: McpServerShutdown, grace: float
) -> None:
    """Calls are answered first; then the streams that wait for nothing in particular are let go."""
    await under_way.end(grace)
    await ending.end(grace)
    await stop_uvicorn(web, serving, 2 * grace)


def _config(app: App, limits: HttpLimits) -> uvicorn.Config:
    return uvicorn_config(app, head_seconds=limits.head_seconds, connections=limits.connections, grace=limits.grace)


def _sessions(server: Server[Any], limits: HttpLimits) -> StreamableHTTPSessionManager:
    """The SDK's, with a store of events for each session; one store would hold the events of all."""
    sessions = StreamableHTTPSessionManager(
        server,
        retry_interval=_RETRY_MS,
        session_idle_timeout=limits.idle_seconds,
        max_request_body_size=limits.body,
        max_sessions=limits.sessions,
        # Who may come in was checked before, by `handrail.http.request_guard`.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    before_each_session(sessions, lambda: setattr(sessions, "event_store", SessionEventStore()))
    return sessions


def _at(path: str, app: App) -> App:
    async def at(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != path:
            return await refuse_unread_request(receive, send, 404, f"there is nothing here; the server is at {path}")
        return await app(scope, receive, send)

    return at


def _guarded(app: App, doors: AccessRequirements, keys: AccessKeys, origins: Sequence[str], limits: HttpLimits) -> App:
    """The application inside its guards, from the inside out: the body, the token, what pages may do, and the names."""
    inner: Any = BodyLimitMiddleware(app, size=limits.body, seconds=limits.body_seconds)
    if keys:
        inner = _TokenMiddleware(cast(App, AuthContextMiddleware(inner)), keys)
    if origins:
        inner = CORSMiddleware(
            inner,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=[*_CORS, "last-event-id"],
            expose_headers=["mcp-session-id"],
        )
    return AccessMiddleware(inner, doors)


class _TokenMiddleware:
    """Asks for a token, and says to those behind it whose it was."""

    def __init__(self, app: App, keys: AccessKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        holder = self._keys.holder(header(scope, b"authorization"))
        if holder is None:
            why = "send the token of this server"
            return await refuse_unread_request(receive, send, 401, why, (b"www-authenticate", b"Bearer"))
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=holder, scopes=[], subject=holder))
        return await self._app(scope, receive, send)


class McpServerShutdown:
    """Lets the server end: requests are answered first, and streams that stay open are told their client is gone."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._over = asyncio.Event()
        self._answering = 0
        self._answered = asyncio.Event()
        self._answered.set()

    async def end(self, grace: float) -> None:
        """Give answers so many seconds to be written, and end the rest."""
        with contextlib.suppress(TimeoutError):
            async with time_limit(grace):
                await self._answered.wait()
        self._over.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_stream(scope):
            return await self._app(scope, receive_until_shutdown(receive, self._over), send)
        self._answering += 1
        self._answered.clear()
        try:
            return await self._app(scope, receive_until_shutdown(receive, self._over), send)
        finally:
            self._answering -= 1
            if not self._answering:
                self._answered.set()


def is_stream(scope: Scope) -> bool:
    """Whether a request stays open for as long as somebody listens, and is not waiting for an answer."""
    return scope["method"] == "GET" or header(scope, b"mcp-method") == "subscriptions/listen"


EVENTS = 1_000
BYTES = 4 * 1024 * 1024


class SessionEventStore(EventStore):
    """What was sent on the streams of one session, so that a client whose connection broke can have the rest.

    It is kept in memory and bounded. A client that comes back too late for an event is told nothing of it; the
    call's own answer is in the journal as ever. There is one for each session: streams are named by request ids, and
    those of another session have the same names.
    """

    def __init__(self, *, events: int = EVENTS, size: int = BYTES) -> None:
        self._kept: deque[tuple[int, str, JSONRPCMessage | None, int]] = deque()
        self._numbers = count(1)
        self._events = events
        self._size = size
        self._held = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        number = next(self._numbers)
        size = 0 if message is None else len(message.model_dump_json())
        self._kept.append((number, stream_id, message, size))
        self._held += size
        while self._kept and (len(self._kept) > self._events or self._held > self._size):
            self._held -= self._kept.popleft()[3]
        return str(number)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        after = int(last_event_id) if last_event_id.isdecimal() and len(last_event_id) < 20 else 0
        stream = next((stream for number, stream, _, _ in self._kept if number == after), None)
        if stream is None:
            return None
        for number, other, message, _ in tuple(self._kept):
            if number > after and other == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
