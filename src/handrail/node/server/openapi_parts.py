"""The parts that the description of the endpoints is made of: headers, and the shapes of what goes in and out."""

from __future__ import annotations

from typing import Any

from handrail.core.errors import OUTCOMES
from handrail.node.bus.wire_codes import WIRE
from handrail.node.server.content_negotiation import JSON

Schema = dict[str, Any]


def schema_reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _header(name: str, description: str, schema: Schema, *, required: bool = False, example: str = "") -> Schema:
    found: Schema = {"name": name, "in": "header", "description": description, "schema": schema, "required": required}
    return {**found, "example": example} if example else found


ANY_TOKEN: list[Schema] = [{"bearer": []}, {"token": []}]
SCHEMES: Schema = {
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

CAPABILITY_HEADER = _header(
    "X-HearthNet-Capability",
    "What is called; an envelope says so itself",
    {"type": "string", "pattern": "^[!-~]+$", "maxLength": 100},
    required=True,
)
CALL_HEADERS = [
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
COUNT: Schema = {
    "name": "n",
    "in": "query",
    "description": "How many",
    "schema": {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 50},
}
RESPONSE_HEADERS: Schema = {
    "RequestId": {"description": "The id of the call", "schema": _ID},
    "RetryAfter": {"description": "Seconds", "schema": {"type": "integer", "minimum": 0}},
    "Challenge": {"description": "What to send", "required": True, "schema": {"type": "string"}},
    "Allow": {"description": "The methods of this path", "required": True, "schema": {"type": "string"}},
}
_CAPABILITY: Schema = {
    "type": "object",
    "required": ["name", "version", "schema_hash", "node_id", "local", "in_flight"],
    "properties": {
        "name": {"type": "string"},
        "version": _VERSION,
        "schema_hash": {"type": "string"},
        "description": {"type": "string"},
        "stability": {"enum": ["experimental", "beta", "stable", "deprecated"]},
        "request_schema": _OBJECT,
        "response_schema": {"type": ["object", "null"]},
        "stream_schema": {"type": ["object", "null"]},
        "params": _OBJECT,
        "max_concurrent": {"type": "integer"},
        "trust_required": {"type": "string"},
        "timeout_seconds": {"type": "number"},
        "side_effects": {"type": "boolean"},
        "idempotent": {"type": "boolean"},
        "untrusted": {"type": "boolean"},
        "needs": {"type": ["array", "null"], "items": {"type": "string"}},
        "node_id": {"type": "string"},
        "local": {"type": "boolean"},
        "in_flight": {"type": "integer", "minimum": 0},
    },
}
SCHEMAS: Schema = {
    "Object": _OBJECT,
    "Body": {
        "type": "object",
        "properties": {"params": _OBJECT, "input": _OBJECT},
        "description": "What the `request_schema` of the capability says",
    },
    "Envelope": {
        "type": "object",
        "required": ["capability"],
        "additionalProperties": False,
        "properties": {
            "capability": _NAME,
            "version": _VERSION,
            "request_id": _ID,
            "from": _TEXT,
            "community": _TEXT,
            "timestamp": _TEXT,
            "signature": _TEXT,
            "token": {"type": "string", "maxLength": 8_192},
            "attempt": _ATTEMPT,
            "timeout_ms": {"anyOf": [_MS, {"type": "null"}]},
            "depth": _DEPTH,
            "within": _SCOPES,
            "session_id": {"anyOf": [_ID, {"type": "null"}]},
            "schema_hash": {"anyOf": [_TEXT, {"type": "null"}]},
            "traceparent": {"anyOf": [_TEXT, {"type": "null"}]},
            "interactive": {"type": "boolean"},
            "body": _OBJECT,
        },
    },
    "Response": {
        "type": "object",
        "required": ["output", "meta"],
        "properties": {"output": _OBJECT, "meta": _OBJECT},
    },
    "Error": {
        "type": "object",
        "required": ["error", "message", "outcome"],
        "properties": {
            "error": {"enum": list(WIRE)},
            "message": {"type": "string"},
            "outcome": {"enum": [outcome for outcome in OUTCOMES if outcome != "ok"]},
            "retry_after_ms": {"type": "integer", "minimum": 0},
        },
    },
    "Health": {"type": "object", "required": ["status"], "properties": {"status": {"const": "ok"}}},
    "Ready": {"type": "object", "required": ["status"], "properties": {"status": {"const": "ready"}}},
    "Manifest": {
        "type": "object",
        "required": ["name", "node_id", "community", "version"],
        "properties": {
            "name": {"type": "string"},
            "node_id": {"type": "string"},
            "community": {"type": "string"},
            "version": {"type": "string"},
            "capabilities": {"type": "array", "items": schema_reference("Capability")},
            "signature": {"type": "string"},
        },
    },
    "Capability": _CAPABILITY,
    "Capabilities": {
        "type": "object",
        "required": ["node_id", "capabilities"],
        "properties": {
            "node_id": {"type": "string"},
            "capabilities": {"type": "array", "items": schema_reference("Capability")},
        },
    },
    "Traces": {
        "type": "object",
        "required": ["traces"],
        "properties": {"traces": {"type": "array", "items": _OBJECT}},
    },
    "Telemetry": {"type": "object", "required": ["tools"], "properties": {"tools": {}}},
}
