"""What goes into `llm.chat`, what comes out of it, and what its frames hold. Data, nothing more."""

from __future__ import annotations

from typing import Any

CHAT = "llm.chat"
V1, V2 = (1, 0), (2, 0)
MAX_TOOLS = 16
"""Tools in one call."""
MAX_TOKENS, TEMPERATURE, TOP_P = 1024, 0.7, 0.95
"""What a request that says nothing gets."""

ROLES = ("system", "user", "assistant", "tool")
MODALITIES = ("text", "vision")


def object_schema(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """An object with these fields and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_ARGUMENTS = {"type": ["object", "string"], "description": "An object; text only if the model wrote no JSON object."}
_ARTEFACTS = {
    "type": "array",
    "items": object_schema({"provider": _TEXT, "data": {}}, "provider", "data"),
    "description": "What the service behind the model wants back as it is.",
}
_CITATION = object_schema({"url": _TEXT, "title": _TEXT, "quote": _TEXT, "start": _COUNT, "end": _COUNT})
_MEDIA = object_schema(
    {
        "media_type": _TEXT,
        "name": _TEXT,
        "data": {"type": "string", "description": "In base64."},
        "url": {"type": "string", "description": "Where it is, if it is not here."},
    },
    "media_type",
)
_SERVICE_CALL = object_schema(
    {"id": _TEXT, "name": _TEXT, "arguments": {}, "result": {}, "failed": {"type": "boolean"}}, "id", "name"
)
_CALL = object_schema(
    {"id": _TEXT, "name": _TEXT, "arguments": _ARGUMENTS, "artefacts": _ARTEFACTS}, "id", "name", "arguments"
)
_PARTS = {
    "type": "array",
    "minItems": 1,
    "items": {
        "anyOf": [
            object_schema({"type": {"const": "text"}, "text": _TEXT}, "type", "text"),
            object_schema({"type": {"const": "image"}, "image_cid": _TEXT}, "type", "image_cid"),
        ]
    },
}


def _messages(content: dict[str, Any]) -> dict[str, Any]:
    message = object_schema(
        {
            "role": {"enum": list(ROLES)},
            "content": content,
            "tool_calls": {"type": "array", "items": _CALL},
            "tool_call_id": _TEXT,
            "is_error": {"type": "boolean"},
            "artefacts": _ARTEFACTS,
        },
        "role",
    )
    return {"type": "array", "minItems": 1, "items": message}


_CHOICE = {
    "anyOf": [{"enum": ["auto", "none", "required"]}, object_schema({"name": _TEXT}, "name")],
    "default": "auto",
}


def request_schema(version: tuple[int, int], max_tools: int = MAX_TOOLS) -> dict[str, Any]:
    """The schema of the whole body. Version 1 names its model, and its messages are text."""
    text = {"type": ["string", "null"]}
    content = text if version == V1 else {"anyOf": [text, _PARTS]}
    input = {
        "messages": _messages(content),
        "max_tokens": {"type": "integer", "minimum": 1, "default": MAX_TOKENS},
        "temperature": {"type": "number", "minimum": 0, "default": TEMPERATURE},
        "top_p": {"type": "number", "minimum": 0, "maximum": 1, "default": TOP_P},
        "stop": {"type": "array", "items": _TEXT},
        "seed": {"type": "integer"},
        "tools": {"type": "array", "items": {"type": "object"}, "maxItems": max_tools, "default": []},
        "tool_choice": _CHOICE,
        "stream": {"type": "boolean", "default": True},
        "max_iterations": {"type": "integer", "minimum": 1, "description": "Of an interactive stream."},
    }
    params: dict[str, Any] = {
        "type": "object",
        "properties": {"model": _TEXT, "ctx": {"type": "integer", "minimum": 1}},
    }
    if version == V1:
        params["required"] = ["model"]
    else:
        params["properties"]["modalities"] = {"type": "array", "items": {"enum": list(MODALITIES)}}
    required = ["params", "input"] if version == V1 else ["input"]
    return object_schema({"params": params, "input": object_schema(input, "messages")}, *required)


MESSAGE = object_schema(
    {
        "role": {"const": "assistant"},
        "content": _TEXT,
        "artefacts": _ARTEFACTS,
        "citations": {"type": "array", "items": _CITATION},
        "media": {"type": "array", "items": _MEDIA, "description": "Pictures and files that the model made."},
        "service_calls": {
            "type": "array",
            "items": _SERVICE_CALL,
            "description": "Calls that the service of the model ran itself.",
        },
    },
    "role",
    "content",
)
RESPONSE = object_schema({"message": MESSAGE, "tool_calls": {"type": "array", "items": _CALL}}, "message")

STOP_REASONS = (
    "end",
    "tool_calls",
    "max_tokens",
    "stop_sequence",
    "content_filter",
    "refusal",
    "cancelled",
)
_PROGRESS = {"current": {"type": ["number", "null"]}, "total": {"type": ["number", "null"]}, "stage": _TEXT}

STREAM: dict[str, dict[str, Any]] = {
    "token": object_schema({"text": _TEXT, "logprob": {"type": "number"}}, "text"),
    "tool_call_delta": object_schema({"id": _TEXT, "name": _TEXT, "arguments_delta": _TEXT}, "id", "arguments_delta"),
    "tool_call": _CALL,
    "citation": _CITATION,
    "media": _MEDIA,
    "service_call": _SERVICE_CALL,
    "progress": object_schema(_PROGRESS),
    "notice": object_schema({"text": _TEXT}, "text"),
    "done": {
        "type": "object",
        "properties": {
            "tokens_in": _COUNT,
            "tokens_out": _COUNT,
            "stop_reason": {"enum": list(STOP_REASONS)},
            "model": _TEXT,
            "artefacts": _ARTEFACTS,
            "message": MESSAGE,
        },
        "required": ["stop_reason"],
    },
}
"""The schemas of events. Only the first delta of a call has the name; the deltas of an id join to the arguments'
JSON."""
