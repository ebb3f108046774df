"""The ASGI application of a node: what stands before its routes, and the routes."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from handrail.core.errors import BusError
from handrail.core.redact import redact_text
from handrail.http.request_guard import (
    AccessMiddleware,
    AccessRequirements,
    App,
    BodyLimitMiddleware,
    Message,
    Receive,
    RequestMemory,
    Scope,
    Send,
)
from handrail.node.gateways.unserved_paths import ApiRefusalFormat
from handrail.node.server import call_route as calls
from handrail.node.server.admission import AdmissionGate, CrowdLimit, refusal_of_large_body
from handrail.node.server.authentication import TOKEN
from handrail.node.server.content_negotiation import JSON, preferred_media_type
from handrail.node.server.envelope import HEADERS
from handrail.node.server.info_routes import OPEN, answer_info_request, info_paths, numbers
from handrail.node.server.json_responses import bus_error_of, error_response, send_error
from handrail.node.server.node import NodeServer
from handrail.node.server.page import PageRoutes, page_files
from handrail.node.server.websocket import websocket_call

logger = logging.getLogger(__name__)

_HEADERS = (
    "anthropic-version",
    "authorization",
    "content-type",
    "last-event-id",
    "x-api-key",
    *(f"x-handrail-{name}" for name in ("confirm", "progress", "run", "show-calls", "tools")),
    *(name.lower() for name in (TOKEN, *HEADERS.values())),
)

_WORDS = {
    404: "there is nothing here; /openapi.json says what there is",
    405: "this path has other methods; the header Allow names them",
}


def build_app(
    server: NodeServer,
    *,
    host: str = "127.0.0.1",
    crowded: Callable[[], bool] = lambda: False,
    room: RequestMemory | None = None,
) -> Starlette:
    """The application of a node at a host. From the outside in: names, crowd, life, page, size, routes."""
    doors = AccessRequirements.of(host, server.hosts, server.origins)
    limits = server.limits
    pages = [
        Middleware(
            CORSMiddleware,
            allow_origins=list(server.origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=list(_HEADERS),
            expose_headers=["x-hearthnet-request-id", "retry-after"],
        )
    ]
    app = Starlette(
        routes=[*_routes(server), *server.pages, *server.gateways],
        middleware=[
            *([Middleware(ApiRefusalFormat)] if server.gateways else ()),
            Middleware(cast(Any, UncaughtErrorGuard)),
            Middleware(cast(Any, AccessMiddleware), doors=doors, refuse=send_error),
            Middleware(cast(Any, CrowdLimit), crowded=crowded),
            Middleware(cast(Any, AdmissionGate), life=server.life),
            *([Middleware(cast(Any, PageRoutes), files=page_files())] if server.page else ()),
            *(pages if server.origins else ()),
            Middleware(
                cast(Any, BodyLimitMiddleware),
                size=limits.body,
                seconds=limits.body_seconds,
                room=room,
                refuse=send_error,
                refusal_of_large=partial(refusal_of_large_body, server),
            ),
        ],
        exception_handlers={BusError: _bus_error, HTTPException: _http_error},
    )
    app.router.redirect_slashes = False  # nobody is sent elsewhere with a token in hand
    return app


def operators_app(server: NodeServer) -> Starlette:
    """The application of the port for operators: whether the node is up, and its numbers."""

    def shown(page: Callable[[NodeServer, Request], Awaitable[Response]]) -> Any:
        return partial(page, server)

    pages = {"/health": OPEN["/health"], "/ready": OPEN["/ready"], "/metrics": numbers}
    return Starlette(
        routes=[_route(path, shown(page), "GET") for path, page in pages.items()],
        middleware=[Middleware(cast(Any, UncaughtErrorGuard))],
        exception_handlers={BusError: _bus_error, HTTPException: _http_error},
    )


def _routes(server: NodeServer) -> list[BaseRoute]:
    async def over_socket(websocket: WebSocket) -> None:
        await websocket_call(websocket, server)

    async def shown(page: Any, request: Request) -> Response:
        preferred_media_type(request.headers, JSON)
        found: Response = await page(server, request)
        return found

    return [
        WebSocketRoute(calls.PATH, over_socket),
        _route(calls.PATH, partial(calls.answer_call, server), "POST"),
        *(_route(path, partial(shown, page), "GET") for path, page in OPEN.items()),
        *(_route(path, partial(answer_info_request, server, path), "GET") for path in info_paths(server)),
    ]


def _route(path: str, endpoint: Any, method: str) -> Route:
    allowed = ("GET", "HEAD", "OPTIONS") if method == "GET" else (method, "OPTIONS")

    async def answered(request: Request) -> Any:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": ", ".join(allowed)})
        return await endpoint(request)

    return Route(path, answered, methods=allowed)


async def _bus_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, BusError)
    return error_response(error)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    why = _WORDS.get(error.status_code, error.detail)
    return error_response(bus_error_of(error.status_code, why), error.status_code, error.headers)


class UncaughtErrorGuard:
    """A mistake of ours: the log has the place, and the client has nothing to learn from it."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception as error:
            said = redact_text("".join(traceback.format_exception(error)))
            logger.error("a request to %s failed:\n%s", scope.get("path"), said)
            if not begun and scope["type"] == "http":
                await send_error(send, 500, "the node made a mistake; its log says where")
