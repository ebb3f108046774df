"""What is asked for below `/v1/` and is not there: 404 and 405 in the form of the client's own API."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from handrail.core.ids import NewId
from handrail.node.gateways.failures import GatewayFailure
from handrail.node.gateways.http_responses import refusal_response
from handrail.node.gateways.wire import GatewayWire
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
        failure = _wrong_method(scope["method"], path, allowed) if allowed else _no_path(path)
        response = refusal_response(wire_of_request(Headers(scope=scope), path), failure, self._new_id("request"))
        if allowed:
            response.headers["allow"] = ", ".join(allowed)
        await response(scope, receive, send)


def _no_path(path: str) -> GatewayFailure:
    words = f"there is nothing at {path[:_SHOWN]}; /openapi.json says what there is"
    return GatewayFailure(status=HTTPStatus.NOT_FOUND, code="not_found", message=words)


def _wrong_method(method: str, path: str, allowed: Sequence[str]) -> GatewayFailure:
    words = f"{path[:_SHOWN]} takes {' and '.join(allowed)}, not {method[:20]}"
    return GatewayFailure(status=HTTPStatus.METHOD_NOT_ALLOWED, code="method_not_allowed", message=words)
