"""A grammar under which a model can write exactly one call, of a tool that is offered, with arguments that fit.

In LLGuidance's notation, which holds a model to nearly all of JSON Schema. llama.cpp's
own grammar, which is used while the model may also answer with words, holds it to
less: `may_escape_grammar` says whether a schema is beyond that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

OPENING = '<tool_call>\n{"name": "'
MIDDLE = '", "arguments": '
CLOSING = "}\n</tool_call>"

_ALONE = frozenset(("enum", "const", "anyOf", "$ref"))
"""Held to, but what stands beside one of them may be overlooked."""
_BESIDE = frozenset(("type", "$defs", "definitions"))
_HELD = _ALONE.union(
    ("type", "properties", "required", "items", "prefixItems", "minItems", "maxItems", "minLength", "maxLength"),
    ("$defs", "definitions"),
)
_REMARKS = frozenset(("title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated"))
_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties")
_LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}


def one_call_grammar(functions: Sequence[dict[str, Any]]) -> str:
    """The grammar for one call of one of these functions, each with `name` and `parameters`."""
    names = [f"{json.dumps(function['name'] + MIDDLE)} arguments{n}" for n, function in enumerate(functions)]
    rules = [
        f"arguments{n}: %json {json.dumps(closed_schema(function.get('parameters') or {}) | {'x-guidance': _LAYOUT})}"
        for n, function in enumerate(functions)
    ]
    start = f"start: {json.dumps(OPENING)} ({' | '.join(names)}) {json.dumps(CLOSING)}"
    return "\n".join(["%llguidance {}", start, *rules])


def may_escape_grammar(schema: Any) -> bool:
    """Whether a value may get past llama.cpp's own grammar and still not fit the schema."""
    if not isinstance(schema, dict):
        return True  # `true` and `false` are schemas, and it takes neither
    keywords = schema.keys() - _REMARKS
    if len(keywords & _ALONE) > 1 or (keywords & _ALONE and keywords - _ALONE - _BESIDE):
        return True
    return not all(_holds(schema, keyword) for keyword in keywords) or any(map(may_escape_grammar, _parts(schema)))


def closed_schema(schema: Any) -> Any:
    """The schema with its objects closed: a small model would invent members that nobody named."""
    if not isinstance(schema, dict):
        return schema
    # Parts of an `allOf` describe one value together; closing one would shut out the others' members.
    changed = _changed(schema, closed_schema) | ({"allOf": schema["allOf"]} if "allOf" in schema else {})
    if "properties" in schema and not schema.keys() & {"allOf", "patternProperties", "$ref"}:
        changed.setdefault("additionalProperties", False)
    return changed


def without_boolean_schemas(schema: Any) -> Any:
    """The schema for llama.cpp, which refuses `true` and `false` in it; what then gets through is checked later."""
    match schema:
        case bool():
            return {}
        case dict():
            closing = {"additionalProperties": False} if schema.get("additionalProperties") is False else {}
            return _changed(schema, without_boolean_schemas) | closing
        case _:
            return schema


def _changed(schema: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """The schema with every schema in it changed."""
    changed = dict(schema)
    for keyword in _MAPS:
        if isinstance(parts := schema.get(keyword), dict):
            changed[keyword] = {name: change(part) for name, part in parts.items()}
    for keyword in _LISTS:
        if isinstance(parts := schema.get(keyword), list):
            changed[keyword] = [change(part) for part in parts]
    for keyword in _SINGLE:
        if keyword in schema:
            changed[keyword] = change(schema[keyword])
    return changed


def _holds(schema: dict[str, Any], keyword: str) -> bool:
    match keyword:
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            return schema.get("type") == "integer"
        case "additionalProperties":
            return schema[keyword] is False
        case _:
            return keyword in _HELD


def _parts(schema: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    _changed({key: part for key, part in schema.items() if part is not False}, found.append)
    return found


class ForcedCall:
    """Takes the chunks of one reply in order."""

    def __init__(self) -> None:
        self._text = ""
        self._named = False

    def feed(self, chunk: dict[str, Any]) -> Iterator[dict[str, Any]]:
        choices = chunk.get("choices") or []
        if not choices:
            yield chunk
            return
        choice = choices[0]
        self._text += choice.get("delta", {}).get("content") or ""
        calls = [*self._name(chunk), *self._arguments()]
        if reason := choice.get("finish_reason"):
            yield _chunk(chunk, calls, "tool_calls" if self._named and self._text == CLOSING else reason)
        elif calls:
            yield _chunk(chunk, calls, None)

    def _name(self, chunk: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._named or MIDDLE not in self._text:
            return
        self._named = True
        opening, _, self._text = self._text.partition(MIDDLE)
        yield {
            "index": 0,
            "id": f"call_{chunk.get('id', '')}",
            "type": "function",
            "function": {"name": opening.removeprefix(OPENING), "arguments": ""},
        }

    def _arguments(self) -> Iterator[dict[str, Any]]:
        """The arguments up to the end, which may turn out to be the closing words."""
        if self._named and len(self._text) > len(CLOSING):
            sure, self._text = self._text[: -len(CLOSING)], self._text[-len(CLOSING) :]
            yield {"index": 0, "function": {"arguments": sure}}


def _chunk(chunk: dict[str, Any], calls: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    delta = {"tool_calls": calls} if calls else {}
    return {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
