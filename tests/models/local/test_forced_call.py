"""A call written under our grammar, and the grammar."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.events import CallRequested, ReplyFinished
from handrail.core.messages import Text, UserMessage
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.local.forced_grammar import (
    CLOSING,
    MIDDLE,
    OPENING,
    ForcedCall,
    closed_schema,
    may_escape_grammar,
    one_call_grammar,
)
from handrail.models.openai_chat import OpenAIChatCodec

ARGUMENTS = st.dictionaries(st.text(), st.text() | st.just('"}\n</tool_call>') | st.integers(), max_size=4)


def _chunks(text: str, size: int, reason: str) -> list[dict[str, Any]]:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    said = [{"id": "1", "choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    return [*said, {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}]


def _events(chunks: list[dict[str, Any]]) -> list[Any]:
    offer = ToolOffer("add", "", {"type": "object"})
    decoder = OpenAIChatCodec().decoder(ModelRequest(messages=(UserMessage((Text("hi"),)),), tools=(offer,)))
    forced = ForcedCall()
    events = [event for chunk in chunks for part in forced.feed(chunk) for event in decoder.feed(part)]
    return [*events, *decoder.finish()]


@given(ARGUMENTS, st.integers(1, 30))
def test_any_cutting_of_the_text_gives_the_call_that_was_written(arguments: dict[str, Any], size: int) -> None:
    written = json.dumps(arguments)
    events = _events(_chunks(OPENING + "add" + MIDDLE + written + CLOSING, size, "stop"))
    (call,) = [event.call for event in events if isinstance(event, CallRequested)]
    assert (call.name, call.arguments) == ("add", written)
    assert isinstance(events[-1], ReplyFinished) and events[-1].stop == "tool_calls"


@given(ARGUMENTS, st.integers(1, 30), st.data())
def test_a_call_that_was_cut_off_is_not_made(arguments: dict[str, Any], size: int, data: st.DataObject) -> None:
    text = OPENING + "add" + MIDDLE + json.dumps(arguments) + CLOSING
    length = data.draw(st.integers(0, len(text) - 1))
    events = _events(_chunks(text[:length], size, "length"))
    assert not [event for event in events if isinstance(event, CallRequested)]
    assert isinstance(events[-1], ReplyFinished) and events[-1].stop == "max_tokens"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "number", "minimum": 3},
        {"type": "string", "pattern": "^a$"},
        {"type": "string", "format": "email"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {"not": {}}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"multipleOf": 2}}}},
        {"anyOf": [{"type": "integer"}], "minimum": 4},
        {"enum": [1, 2], "const": 1},
    ],
)
def test_a_schema_that_the_engine_does_not_hold_to_is_loose(schema: dict[str, Any]) -> None:
    assert may_escape_grammar(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "description": "at least 3"}}},
        {"type": "object", "properties": {"a": {"enum": ["x", 1], "title": "A"}}, "additionalProperties": False},
        {"type": "array", "items": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "boolean"}}},
    ],
)
def test_a_schema_that_the_engine_holds_to_is_not_loose(schema: dict[str, Any]) -> None:
    assert not may_escape_grammar(schema)


def test_objects_are_closed_unless_the_schema_says_more_may_come() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "string"}}}
    schema = {"type": "object", "properties": {"a": inner, "c": inner | {"additionalProperties": True}}}
    assert closed_schema(schema) == {
        "type": "object",
        "properties": {"a": inner | {"additionalProperties": False}, "c": inner | {"additionalProperties": True}},
        "additionalProperties": False,
    }


def test_parts_that_describe_one_object_together_stay_open() -> None:
    parts: list[dict[str, Any]] = [{"properties": {"a": {}}}, {"properties": {"b": {}}}]
    assert closed_schema({"allOf": parts}) == {"allOf": parts}


def test_the_grammar_names_every_tool_once() -> None:
    grammar = one_call_grammar([{"name": "add", "parameters": {"type": "object"}}, {"name": "sub", "parameters": {}}])
    assert grammar.count('"add') == grammar.count('"sub') == 1
