"""Who is let in while the node is full, or ends. What is said to them is said in time, and tells them to come back."""

from __future__ import annotations

from collections.abc import Callable

from handrail.core.errors import BusError
from handrail.http.request_guard import App, Receive, Scope, Send, drain_request, receive_until_shutdown
from handrail.node.server.json_responses import error_response
from handrail.node.server.lifecycle import AGAIN_MS, NodeLifecycle

_LOOKS = ("GET", "HEAD", "OPTIONS")


class CrowdLimit:
    """Turns requests away while there are too many."""

    def __init__(self, app: App, *, crowded: Callable[[], bool]) -> None:
        self._app = app
        self._crowded = crowded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and self._crowded():
            error = BusError("capacity_exceeded", "the node has no room", retry_after_ms=AGAIN_MS)
            return await refuse_admission(error, 503, scope, receive, send)
        return await self._app(scope, receive, send)


class AdmissionGate:
    """Counts those that are inside, and lets nobody in any more once the node ends."""

    def __init__(self, app: App, *, life: NodeLifecycle) -> None:
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
            return await refuse_admission(error, 503, scope, receive, send)
        with self._life.request():
            if scope["type"] == "http":
                receive = receive_until_shutdown(receive, self._life.over)
            return await self._app(scope, receive, send)


async def refuse_admission(error: BusError, status: int | None, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a request, and a socket too: before it is opened it is a request like others. No status is that of the
    error."""
    if scope["type"] == "websocket":
        await receive()
        return await error_response(error, status)(scope, receive, send)
    # Who still sends then is cut off: else it could go on, and nobody reads it.
    headers = {} if await drain_request(receive) else {"connection": "close"}
    return await error_response(error, status, headers)(scope, receive, send)
