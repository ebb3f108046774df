"""Who is let in while the node is full, or ends. What is said to them is said in time, and tells them to come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from handrail.core.errors import BusError
from handrail.http.guard import App, Receive, Scope, Send, or_over
from handrail.server.answers import refused
from handrail.server.life import Life

AGAIN_MS = 1_000
_LOOKS = ("GET", "HEAD", "OPTIONS")


class Crowded:
    """Turns requests away while there are too many."""

    def __init__(self, app: App, *, crowded: Callable[[], bool]) -> None:
        self._app = app
        self._crowded = crowded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and self._crowded():
            error = BusError("capacity_exceeded", "the node has no room", retry_after_ms=AGAIN_MS)
            return await turned_away(error, scope, receive, send)
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
        if self._life.phase == "draining":
            error = BusError("partition", "the node is ending; ask another", retry_after_ms=AGAIN_MS)
            return await turned_away(error, scope, receive, send)
        with self._life.request():
            if scope["type"] == "http":
                receive = or_over(receive, self._life.over)
            return await self._app(scope, receive, send)


async def turned_away(error: BusError, scope: Scope, receive: Receive, send: Send) -> None:
    """Say no with 503, to a socket too: before it is opened it is a request like others."""
    response = refused(error, 503)
    if scope["type"] == "websocket":
        await receive()
    else:
        await _read_off(receive)
    await response(scope, receive, send)


async def _read_off(receive: Receive) -> None:
    """Who is cut off while it sends often does not see why."""
    try:
        async with asyncio.timeout(0.5):
            while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
                pass
    except TimeoutError:
        return
