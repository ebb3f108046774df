"""Refusals that no gateway makes, in the form of the client's API.

What is asked for below `/v1/` and is not there is 404 or 405. A body that is too large, a host or an origin that is not
known, a node that is being shut down: what stands before the routes refuses these in the form of the bus, in which a
client of these APIs would not find the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handrail.core.ids import NewId
from handrail.node.gateways.failures import GatewayFailure
from handrail.node.gateways.http_responses import refusal_response
from handrail.node.gateways.wire import GatewayWire, encode
from handrail.node.gateways.wire_table import ANTHROPIC, OPENAI

_SHOWN = 100
"""Characters of a path that an error shows."""


def wire_of_request(headers: Headers, path: str = "") -> GatewayWire:
    """The API that a client speaks, as far as its request tells where its path does not."""
    return ANTHROPIC if "anthropic-version" in headers or path.startswith(ANTHROPIC.path) else OPENAI


class UnservedPaths:
    """Answers every request below `/v1/` that none of these routes takes."""

    def __init__(self, routes: Sequence[Route], new_id: NewId) -> None:
        self._routes = tuple(routes)
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        allowed = sorted(
            {
                method
                for route in self._routes
                if route.matches(scope)[0] is not Match.NONE
                for method in route.methods or ()
            }
        )
        if allowed:
            status, code = HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed"
            words = f"{path[:_SHOWN]} takes {' and '.join(allowed)}, not {scope['method'][:20]}"
        else:
            status, code = HTTPStatus.NOT_FOUND, "not_found"
            words = f"there is nothing at {path[:_SHOWN]}; /openapi.json says what there is"
        failure = GatewayFailure(status=status, code=code, message=words)
        response = refusal_response(wire_of_request(Headers(scope=scope), path), failure, self._new_id("request"))
        if allowed:
            response.headers["allow"] = ", ".join(allowed)
        await response(scope, receive, send)


_OURS = "x-request-id"
"""A header that every answer of a gateway has."""


class _BusErrorBody(msgspec.Struct):
    error: str
    message: str = ""


class ApiRefusalFormat:
    """Rewrites refusals of what a node has before its routes, all of which it wraps."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, send)
            return
        held: Message | None = None

        async def sent(message: Message) -> None:
            nonlocal held
            refused = message["type"] == "http.response.start" and message["status"] >= 400
            if refused and _OURS not in Headers(raw=message["headers"]):
                held = message
                return
            if held is not None:
                message = _rewritten(held, message, scope)
                await send(held)
                held = None
            await send(message)

        await self._app(scope, receive, sent)


def _rewritten(start: Message, body: Message, scope: Scope) -> Message:
    """The body in the other form, if it was in that of the bus; the head that goes with it is changed to fit."""
    try:
        said = msgspec.json.decode(body.get("body", b""), type=_BusErrorBody)
    except msgspec.MsgspecError:
        return body
    failure = GatewayFailure(status=start["status"], code=said.error, message=said.message)
    written = encode(wire_of_request(Headers(scope=scope), scope["path"]).failed(failure, ""))
    start["headers"] = list(start["headers"])
    MutableHeaders(raw=start["headers"])["content-length"] = str(len(written))
    return {**body, "body": written}
