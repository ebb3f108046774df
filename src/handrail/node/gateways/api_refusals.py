"""Refusals by what stands before the routes of a node, in the form of the client's API.

A body that is too large, a host or an origin that is not known, a node that is being shut down: they are refused
before any gateway sees the request, in the form of the bus. A client of these APIs would not find the reason in it.
"""

from __future__ import annotations

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handrail.node.gateways.failures import GatewayFailure
from handrail.node.gateways.unserved_paths import wire_of_request
from handrail.node.gateways.wire import encode

_OURS = "x-request-id"
"""Every answer of a gateway has this header."""


class _BusErrorBody(msgspec.Struct):
    error: str
    message: str = ""


class ApiRefusalFormat:
    """Wraps everything else that a node has before its routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, send)
            return
        held: Message | None = None

        async def sent(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_refusal(message):
                held = message
                return
            if held is not None:
                message = _rewritten(held, message, scope)
                await send(held)
                held = None
            await send(message)

        await self._app(scope, receive, sent)


def _is_refusal(start: Message) -> bool:
    return start["status"] >= 400 and _OURS not in Headers(raw=start["headers"])


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
