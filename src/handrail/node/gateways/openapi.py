"""The gateways in the OpenAPI description of a node: what they read, from the very types they read it into."""

from __future__ import annotations

from typing import Any

import msgspec

from handrail.node.gateways.agui.body import RunAgentInput
from handrail.node.gateways.anthropic.body import COUNT, MESSAGES, MessagesBody
from handrail.node.gateways.field_rules import FieldTable
from handrail.node.gateways.openai import completions, embeddings
from handrail.node.gateways.openai.body import CHAT, ChatBody
from handrail.node.gateways.openai_responses.body import RESPONSE, ResponsesBody
from handrail.node.gateways.request import HandrailExtension
from handrail.node.gateways.token_count import COUNT_PATH
from handrail.node.gateways.wire_table import AGUI, ANTHROPIC, COMPLETIONS, OPENAI, RESPONSES

Schema = dict[str, Any]

_OBJECT = {"type": "object"}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key with the same request gets the same answer, and nothing runs a second time.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}
_ERROR = {
    "description": "Why it is not answered, in the form of the API.",
    "content": {"application/json": {"schema": {"type": "object", "required": ["error"]}}},
}


def _schema(kind: type) -> Schema:
    """The JSON Schema of a type in one piece: in a description of many, a reference would lead astray."""
    made = msgspec.json.schema(kind)
    named = made.pop("$defs", {})

    def whole(part: Any) -> Any:
        match part:
            case {"$ref": str(reference)}:
                return _untagged(whole(named[reference.rpartition("/")[2]]))
            case {"discriminator": {"mapping": dict(kinds)}}:
                return {"anyOf": [whole(named[reference.rpartition("/")[2]]) for reference in kinds.values()]}
            case dict():
                titled = isinstance(part.get("title"), str)  # with the name of a type, which is not part of the API
                return {key: whole(value) for key, value in part.items() if key != "title" or not titled}
            case list():
                return [whole(each) for each in part]
        return part

    found: Schema = whole(made)
    return found


def _untagged(schema: Schema) -> Schema:
    """What stands where nothing else can need not say what it is."""
    fields = schema["properties"]
    needed = [name for name in schema.get("required", ()) if len(fields[name].get("enum", ())) != 1]
    return {**schema, "required": needed}


def _body(kind: type, table: FieldTable) -> Schema:
    """What is read, what is passed over, and of what is refused the values that ask for nothing."""
    schema = _schema(kind)
    fields = {name: field for name, field in schema["properties"].items() if name in table}
    for name, rule in table.items():
        if name not in fields:
            allowed = {"enum": [*rule.neutral, None]} if rule.treatment == "refused" else {}
            fields[name] = {"description": rule.reason, **allowed}
    if "handrail" in table:
        fields["handrail"] = {"anyOf": [_schema(HandrailExtension), {"type": "null"}]}
    required = [name for name in schema["required"] if name in fields]
    return {**schema, "properties": fields, "required": required, "additionalProperties": {"type": "null"}}


def _post(summary: str, kind: type, table: FieldTable) -> Schema:
    """Describes an endpoint whose answer comes whole or as a stream."""
    found = _at_once(summary, kind, table)
    answers = {"application/json": {"schema": _OBJECT}, "text/event-stream": {"schema": {}}}
    found["parameters"] = [_KEY]
    found["responses"]["200"] = {"description": "The answer, whole or as a stream.", "content": answers}
    return found


def _stream(summary: str, kind: type) -> Schema:
    """Describes an endpoint whose answer is always a stream, and whose other fields have no effect."""
    answer = {"description": "The events of the run.", "content": {"text/event-stream": {"schema": {}}}}
    return {
        "summary": summary,
        "parameters": [_KEY],
        "requestBody": {"required": True, "content": {"application/json": {"schema": _schema(kind)}}},
        "responses": {"200": answer, "default": _ERROR},
    }


def _at_once(summary: str, kind: type, table: FieldTable) -> Schema:
    answer = {"description": "The answer.", "content": {"application/json": {"schema": _OBJECT}}}
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": _body(kind, table)}}},
        "responses": {"200": answer, "default": _ERROR},
    }


def _operation(summary: str, *parameters: Schema) -> Schema:
    found = {"description": "In the form of the API.", "content": {"application/json": {"schema": _OBJECT}}}
    given = {"parameters": list(parameters)} if parameters else {}
    return {"summary": summary, **given, "responses": {"200": found, "default": _ERROR}}


def _in_path(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


_PAGE: tuple[Schema, ...] = (
    {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100}},
    {"name": "order", "in": "query", "schema": {"type": "string", "enum": ["asc", "desc"]}},
    {"name": "after", "in": "query", "schema": {"type": "string"}},
)

_ANSWER = "An answer by a model with the node's tools, as"
_RESPONSE = _in_path("id")
PATHS: Schema = {
    OPENAI.path: {"post": _post(f"{_ANSWER} OpenAI's Chat Completions", ChatBody, CHAT)},
    ANTHROPIC.path: {"post": _post(f"{_ANSWER} Anthropic's Messages", MessagesBody, MESSAGES)},
    COUNT_PATH: {"post": _at_once("How many tokens a request to Messages has", MessagesBody, COUNT)},
    COMPLETIONS.path: {
        "post": _post(
            "A text, continued, as OpenAI's older Completions", completions.CompletionsBody, completions.COMPLETIONS
        )
    },
    embeddings.PATH: {
        "post": _at_once("Texts as vectors, as OpenAI's Embeddings", embeddings.EmbeddingsBody, embeddings.EMBEDDINGS)
    },
    RESPONSES.path: {"post": _post(f"{_ANSWER} OpenAI's Responses", ResponsesBody, RESPONSE)},
    f"{RESPONSES.path}/{{id}}": {
        "get": _operation("A response that was created before", _RESPONSE),
        "delete": _operation("Delete a response", _RESPONSE),
    },
    f"{RESPONSES.path}/{{id}}/cancel": {"post": _operation("Cancel a response that is not complete", _RESPONSE)},
    f"{RESPONSES.path}/{{id}}/input_items": {"get": _operation("The input of a response", _RESPONSE, *_PAGE)},
    AGUI.path: {"post": _stream(f"{_ANSWER} events of AG-UI", RunAgentInput)},
    "/v1/models": {"get": _operation("The models there are")},
    "/v1/models/{name}": {"get": _operation("One of them", _in_path("name"))},
}
