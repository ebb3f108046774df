"""Tools as functions of Python: any schema has a signature, and what it says is short and true."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.run.code.functions import function_stub, type_text
from handrail.tools.definition import ToolDefinition
from handrail.tools.tool import Tool

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "items", "enum", "anyOf", "$ref", "const", "default"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_any_json_has_a_type_in_words(schema: Any, root: Any) -> None:
    assert type_text(schema, root if isinstance(root, dict) else None)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "str"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"type": "array", "items": {"type": "number"}}, "list[float]"),
        ({"enum": ["a", "b"]}, "Literal['a', 'b']"),
        ({"const": 1}, "Literal[1]"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "string"}]}, "str | None"),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, "{'a': int}"),
        ({"$ref": "#/$defs/Point"}, "{'x': float, 'next': Any}"),
        ({"$ref": "https://elsewhere"}, "Any"),
        (True, "Any"),
        ({}, "Any"),
    ],
)
def test_types_are_those_that_a_reader_of_python_knows(schema: Any, words: str) -> None:
    point = {"type": "object", "properties": {"x": {"type": "number"}, "next": {"$ref": "#/$defs/Point"}}}

    assert type_text(schema, {"$defs": {"Point": point}}) == words


def test_a_stub_says_the_types_the_defaults_and_what_is_said_of_each() -> None:
    schema = {
        "type": "object",
        "properties": {
            "most": {"type": "integer", "default": 10, "description": "How many\nat most."},
            "words": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "boolean"},
        },
        "required": ["words"],
    }
    output = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}
    made = Tool(ToolDefinition("gh.find", "Find  issues.", schema, output), lambda **given: [])

    assert function_stub(made, "gh_find") == (
        "def gh_find(words: list[str], most: int = 10, deep: bool = ...) -> list[{'name': str}]: ...\n"
        "    # Find issues.\n"
        "    # most: How many at most."
    )
