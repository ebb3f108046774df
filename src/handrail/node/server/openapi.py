"""What the endpoints of a node take and give, in OpenAPI 3.1. A test holds it to what the node does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.version import VERSION
from handrail.node.bus.wire_codes import WIRE
from handrail.node.server.content_negotiation import ENVELOPE, JSON, SSE
from handrail.node.server.openapi_parts import (
    ANY_TOKEN,
    CALL_HEADERS,
    CAPABILITY_HEADER,
    COUNT,
    RESPONSE_HEADERS,
    SCHEMAS,
    SCHEMES,
    Schema,
    schema_reference,
)

if TYPE_CHECKING:
    from handrail.node.server.node import NodeServer

_BY_HTTP = {
    405: "This path has other methods; `Allow` names them.",
    406: "It cannot be had in any form that `Accept` names.",
    413: "The request is too large.",
    415: "The body is not plain JSON.",
    421: "The node does not go by that name.",
}
_ALWAYS = (400, 403, 405, 406, 421, 500, 503)
_TOKENS = (401, 403, 404, 410, 429)


def openapi_document(server: NodeServer) -> Schema:
    """The whole of it, the gateways included."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"The node {server.node.name}",
            "version": VERSION,
            "description": "Capabilities that a node offers to programs, models and other nodes.",
        },
        "paths": {**_paths(server), **server.described},
        "components": {"schemas": SCHEMAS, "headers": RESPONSE_HEADERS, "securitySchemes": SCHEMES},
        "security": ANY_TOKEN,
    }


def _paths(server: NodeServer) -> Schema:
    return {
        "/bus/v1/call": {"post": _call(next((each.descriptor.name for each in server.bus.registry), "rag.query"))},
        "/health": {"get": _get("health", "Whether it runs", "Health", security=[])},
        "/ready": {"get": _get("ready", "Whether it takes calls", "Ready", security=[])},
        "/manifest": {
            "get": _get("manifest", "Who it is; and what it offers, to those who may look", "Manifest", open=True)
        },
        "/capabilities": {"get": _get("capabilities", "What the caller may call", "Capabilities")},
        "/openapi.json": {"get": _get("openapi", "This description", "Object")},
        "/metrics": {"get": _get("metrics", "Numbers for Prometheus", None)},
        "/trace/recent": {"get": _get("traces", "The last calls, the newest first", "Traces", parameters=[COUNT])},
        **(
            {}
            if server.telemetry is None
            else {"/telemetry": {"get": _get("telemetry", "Tools: offered, picked, failed", "Telemetry")}}
        ),
    }


def _call(example: str) -> Schema:
    return {
        "operationId": "call",
        "summary": "Call a capability",
        "description": (
            "The fields of the call stand in headers and the body is that of the capability; or the body is an "
            f"envelope, which holds all of it, as `{ENVELOPE}`. (`{JSON}` without the header X-HearthNet-Capability "
            f"is taken for an envelope too.) With `Accept: {SSE}` the answer is a stream of events, each with a "
            "number; a client that was cut off sends the same request with the last number as `Last-Event-ID`. On a "
            "WebSocket the same path speaks `hearthnet-bus.v2`."
        ),
        "parameters": [{**CAPABILITY_HEADER, "example": example}, *CALL_HEADERS],
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": schema_reference("Body")}, ENVELOPE: {"schema": schema_reference("Envelope")}},
        },
        "responses": {
            "200": {
                "description": "The response, or its stream",
                "headers": {"X-HearthNet-Request-Id": {"$ref": "#/components/headers/RequestId"}},
                "content": {
                    JSON: {"schema": schema_reference("Response")},
                    SSE: {"schema": {"type": "string"}},
                },
            },
            **_errors({*_ALWAYS, *_TOKENS, 413, 415, *(wire.http for wire in WIRE.values())}),
        },
    }


def _get(
    id: str,
    summary: str,
    schema: str | None,
    *,
    security: list[Schema] | None = None,
    open: bool = False,
    parameters: list[Schema] | None = None,
) -> Schema:
    content = (
        {"text/plain": {"schema": {"type": "string"}}}
        if schema is None
        else {JSON: {"schema": schema_reference(schema)}}
    )
    found: Schema = {
        "operationId": id,
        "summary": summary,
        "responses": {
            "200": {"description": summary, "content": content},
            **_errors({*_ALWAYS, *(() if security == [] else _TOKENS)}),
        },
    }
    if security is not None:
        found["security"] = security
    if open:
        found["security"] = [{}, *ANY_TOKEN]
    if parameters:
        found["parameters"] = parameters
    return found


def _errors(statuses: set[int]) -> Schema:
    return {str(status): _error(status) for status in sorted(statuses)}


def _error(status: int) -> Schema:
    codes = [code for code, wire in WIRE.items() if wire.http == status]
    said = _BY_HTTP.get(status) or f"{', '.join(f'`{code}`' for code in codes)}"
    headers: Schema = {}
    if status in (408, 429, 503):
        headers["Retry-After"] = {"$ref": "#/components/headers/RetryAfter"}
    if status == 401:
        headers["WWW-Authenticate"] = {"$ref": "#/components/headers/Challenge"}
    if status == 405:
        headers["Allow"] = {"$ref": "#/components/headers/Allow"}
    return {
        "description": said,
        "content": {JSON: {"schema": schema_reference("Error")}},
        **({"headers": headers} if headers else {}),
    }
