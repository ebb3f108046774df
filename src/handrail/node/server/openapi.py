"""What the endpoints of a node take and give, in OpenAPI 3.1. A test holds it to what the node does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from handrail.core.errors import OUTCOMES
from handrail.core.version import VERSION
from handrail.node.bus.wire_codes import WIRE
from handrail.node.server.content_negotiation import ENVELOPE, JSON, SSE

if TYPE_CHECKING:
    from handrail.node.server.node import NodeServer

Schema = dict[str, Any]

_BY_HTTP = {
    405: "This path has other methods; `Allow` names them.",
    406: "It cannot be had in any form that `Accept` names.",
    413: "The request is too large.",
    415: "The body is not plain JSON.",
    421: "The node does not go by that name.",
}
_HEADERS_OF_ERRORS = {
    401: ("WWW-Authenticate", "Challenge"),
    405: ("Allow", "Allow"),
    **dict.fromkeys((408, 429, 503), ("Retry-After", "RetryAfter")),
}
_ALWAYS = (400, 403, 405, 406, 421, 500, 503)
_TOKENS = (401, 403, 404, 410, 429)


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _header(name: str, description: str, schema: Schema, *, required: bool = False, example: str = "") -> Schema:
    found: Schema = {"name": name, "in": "header", "description": description, "schema": schema, "required": required}
    return {**found, "example": example} if example else found


_ANY_TOKEN: list[Schema] = [{"bearer": []}, {"token": []}]
_SCHEMES: Schema = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A token, as hntoken://v1/…"},
    "token": {"type": "apiKey", "in": "header", "name": "X-HearthNet-Token", "description": "The same token"},
}
_VERSION = {"type": "string", "pattern": r"^(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})$", "default": "1.0"}
_ID = {"type": "string", "pattern": "^[A-Za-z0-9._:-]*$", "maxLength": 128}
_NAME = {"type": "string", "minLength": 1, "maxLength": 100}
_TEXT = {"type": "string", "maxLength": 256}
_WORD = {"type": "string", "pattern": "^[!-~]*$", "maxLength": 256}
_MS = {"type": "integer", "minimum": 0, "maximum": 86_400_000}
_DEPTH = {"type": "integer", "minimum": 0, "maximum": 1_000}
_ATTEMPT = {"type": "integer", "minimum": 1, "maximum": 1_000_000}
_SCOPES = {"type": "array", "maxItems": 64, "items": {"type": "array", "items": _TEXT}}
_OBJECT = {"type": "object"}
_STRING = {"type": "string"}
_BOOLEAN = {"type": "boolean"}

_CAPABILITY_HEADER = _header(
    "X-HearthNet-Capability",
    "What is called; an envelope says so itself",
    {"type": "string", "pattern": "^[!-~]+$", "maxLength": 100},
    required=True,
)
_CALL_HEADERS = [
    _header("X-HearthNet-Capability-Version", "At least this minor of this major", _VERSION, example="1.0"),
    _header("X-HearthNet-Request-Id", "The same for every attempt at one call, which is made once", _ID),
    _header("X-HearthNet-From", "The id of the node that signs", _WORD),
    _header("X-HearthNet-Community", "The community that is called", _WORD),
    _header("X-HearthNet-Timestamp", "When it was signed, in RFC 3339 with a Z", _WORD),
    _header("X-HearthNet-Signature", "The signature of these fields and the digest of the body", _WORD),
    _header("X-HearthNet-Attempt", "How often the call was put", _ATTEMPT),
    _header("X-HearthNet-Timeout-Ms", "For how long the caller waits", _MS),
    _header("X-HearthNet-Depth", "How many calls this one is inside of", _DEPTH),
    _header("X-HearthNet-Session-Id", "Calls of one session go to one place", _ID),
    _header("X-HearthNet-Schema-Hash", "What the caller takes the capability to be", _WORD),
    {
        "name": "X-HearthNet-Within",
        "in": "header",
        "description": "The scopes of the calls above, as JSON",
        "required": False,
        "content": {JSON: {"schema": _SCOPES}},
    },
    _header("traceparent", "The W3C trace that this is part of", _WORD),
    _header("Last-Event-ID", "The last frame that the client has, to go on", {"type": "integer", "minimum": 0}),
]
_COUNT: Schema = {
    "name": "n",
    "in": "query",
    "description": "How many",
    "schema": {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 50},
}
_RESPONSE_HEADERS: Schema = {
    "RequestId": {"description": "The id of the call", "schema": _ID},
    "RetryAfter": {"description": "Seconds", "schema": {"type": "integer", "minimum": 0}},
    "Challenge": {"description": "What to send", "required": True, "schema": _STRING},
    "Allow": {"description": "The methods of this path", "required": True, "schema": _STRING},
}


def _object(properties: Schema, *required: str, **more: Any) -> Schema:
    return {"type": "object", "required": list(required), "properties": properties, **more}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_CAPABILITY = _object(
    {
        "name": _STRING,
        "version": _VERSION,
        "schema_hash": _STRING,
        "description": _STRING,
        "stability": {"enum": ["experimental", "beta", "stable", "deprecated"]},
        "request_schema": _OBJECT,
        "response_schema": {"type": ["object", "null"]},
        "stream_schema": {"type": ["object", "null"]},
        "params": _OBJECT,
        "max_concurrent": {"type": "integer"},
        "trust_required": _STRING,
        "timeout_seconds": {"type": "number"},
        "side_effects": _BOOLEAN,
        "idempotent": _BOOLEAN,
        "untrusted": _BOOLEAN,
        "labels": {"type": ["object", "null"]},
        "needs": {"type": ["array", "null"], "items": _STRING},
        "node_id": _STRING,
        "local": _BOOLEAN,
        "in_flight": {"type": "integer", "minimum": 0},
    },
    *("name", "version", "schema_hash", "node_id", "local", "in_flight"),
)
_ENVELOPE = _object(
    {
        "capability": _NAME,
        "version": _VERSION,
        "request_id": _ID,
        **dict.fromkeys(("from", "community", "timestamp", "signature"), _TEXT),
        "token": {"type": "string", "maxLength": 8_192},
        "attempt": _ATTEMPT,
        "timeout_ms": _or_null(_MS),
        "depth": _DEPTH,
        "within": _SCOPES,
        "session_id": _or_null(_ID),
        "schema_hash": _or_null(_TEXT),
        "traceparent": _or_null(_TEXT),
        "interactive": _BOOLEAN,
        "body": _OBJECT,
    },
    "capability",
    additionalProperties=False,
)
_ERROR = _object(
    {
        "error": {"enum": list(WIRE)},
        "message": _STRING,
        "outcome": {"enum": [outcome for outcome in OUTCOMES if outcome != "ok"]},
        "retry_after_ms": {"type": "integer", "minimum": 0},
    },
    *("error", "message", "outcome"),
)
_LISTED = {"type": "array", "items": _reference("Capability")}
_WHO = dict.fromkeys(("name", "node_id", "community", "version"), _STRING)
_SCHEMAS: Schema = {
    "Object": _OBJECT,
    "Body": {
        "type": "object",
        "properties": {"params": _OBJECT, "input": _OBJECT},
        "description": "What the `request_schema` of the capability says",
    },
    "Envelope": _ENVELOPE,
    "Response": _object({"output": _OBJECT, "meta": _OBJECT}, "output", "meta"),
    "Error": _ERROR,
    "Health": _object({"status": {"const": "ok"}}, "status"),
    "Ready": _object({"status": {"const": "ready"}}, "status"),
    "Manifest": _object({**_WHO, "capabilities": _LISTED, "signature": _STRING}, *_WHO),
    "Capability": _CAPABILITY,
    "Capabilities": _object({"node_id": _STRING, "capabilities": _LISTED}, "node_id", "capabilities"),
    "Traces": _object({"traces": {"type": "array", "items": _OBJECT}}, "traces"),
    "Telemetry": _object({"tools": {}}, "tools"),
}


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
        "components": {"schemas": _SCHEMAS, "headers": _RESPONSE_HEADERS, "securitySchemes": _SCHEMES},
        "security": _ANY_TOKEN,
    }


def _paths(server: NodeServer) -> Schema:
    example = next((each.descriptor.name for each in server.bus.registry), "rag.query")
    telemetry = _get("telemetry", "Tools: offered, picked, failed", "Telemetry")
    return {
        "/bus/v1/call": {"post": _call(example)},
        "/health": _get("health", "Whether it runs", "Health", security=[]),
        "/ready": _get("ready", "Whether it takes calls", "Ready", security=[]),
        "/manifest": _get(
            "manifest", "Who it is; and what it offers, to those who may look", "Manifest", security=[{}, *_ANY_TOKEN]
        ),
        "/capabilities": _get("capabilities", "What the caller may call", "Capabilities"),
        "/openapi.json": _get("openapi", "This description", "Object"),
        "/metrics": _get("metrics", "Numbers for Prometheus", None),
        "/trace/recent": _get("traces", "The last calls, the newest first", "Traces", parameters=[_COUNT]),
        **({} if server.telemetry is None else {"/telemetry": telemetry}),
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
        "parameters": [{**_CAPABILITY_HEADER, "example": example}, *_CALL_HEADERS],
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": _reference("Body")}, ENVELOPE: {"schema": _reference("Envelope")}},
        },
        "responses": {
            "200": {
                "description": "The response, or its stream",
                "headers": {"X-HearthNet-Request-Id": {"$ref": "#/components/headers/RequestId"}},
                "content": {JSON: {"schema": _reference("Response")}, SSE: {"schema": _STRING}},
            },
            **_errors({*_ALWAYS, *_TOKENS, 413, 415, *(wire.http for wire in WIRE.values())}),
        },
    }


def _get(id: str, summary: str, schema: str | None, *, security: list[Schema] | None = None, **more: Any) -> Schema:
    """The path of a page; without a schema it is plain text."""
    text = {"text/plain": {"schema": _STRING}}
    operation = {
        "operationId": id,
        "summary": summary,
        "responses": {
            "200": {
                "description": summary,
                "content": text if schema is None else {JSON: {"schema": _reference(schema)}},
            },
            **_errors({*_ALWAYS, *(() if security == [] else _TOKENS)}),
        },
        **({} if security is None else {"security": security}),
        **more,
    }
    return {"get": operation}


def _errors(statuses: set[int]) -> Schema:
    return {str(status): _error(status) for status in sorted(statuses)}


def _error(status: int) -> Schema:
    codes = [f"`{code}`" for code, wire in WIRE.items() if wire.http == status]
    found: Schema = {
        "description": _BY_HTTP.get(status) or ", ".join(codes),
        "content": {JSON: {"schema": _reference("Error")}},
    }
    if status in _HEADERS_OF_ERRORS:
        name, part = _HEADERS_OF_ERRORS[status]
        found["headers"] = {name: {"$ref": f"#/components/headers/{part}"}}
    return found
