"""Who is let in while the node is full, or ends. What is said to them is said in time, and tells them to come back."""

from __future__ import annotations

from collections.abc import Callable

from handrail.core.errors import BusError
from handrail.http.guard import App, Receive, Scope, Send, or_over, read_off
from handrail.server.answers import refused
from handrail.server.life import AGAIN_MS, Life

_LOOKS = ("GET", "HEAD", "OPTIONS")


class Crowded:
    """Turns requests away while there are too many."""

    def __init__(self, app: App, *, crowded: Callable[[], bool]) -> None:
        self._app = app
        self._crowded = crowded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and self._crowded():
            error = BusError("capacity_exceeded", "the node has no room", retry_after_ms=AGAIN_MS)
            return await turned_away(error, 503, scope, receive, send)
        return await self._app(scope, receive, send)


class Turnstile:
    """Counts those that are inside, and lets nobody in any more once the node ends."""

    def __init__(self, app: App, *, life: Life) -> None:
        self._app = app
        self._life = life

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] in _LOOKS:
            return await self._app(scope, receive, send)
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        try:
            self._life.check()
        except BusError as error:
            return await turned_away(error, 503, scope, receive, send)
        with self._life.request():
            if scope["type"] == "http":
                receive = or_over(receive, self._life.over)
            return await self._app(scope, receive, send)


async def turned_away(error: BusError, status: int | None, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a request, and a socket too: before it is opened it is a request like others. No status is that of the
    error."""
    if scope["type"] == "websocket":
        await receive()
        return await refused(error, status)(scope, receive, send)
    # Who still sends then is cut off: else it could go on, and nobody reads it.
    headers = {} if await read_off(receive) else {"connection": "close"}
    return await refused(error, status, headers)(scope, receive, send)
