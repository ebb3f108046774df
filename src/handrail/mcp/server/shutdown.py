"""How the server ends: answers first, then the streams that wait for nothing in particular."""

from __future__ import annotations

import asyncio
import contextlib

from handrail.core.timeouts import time_limit
from handrail.http.request_guard import App, Receive, Scope, Send, header, receive_until_shutdown


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
