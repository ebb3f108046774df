"""Definitions are read in every spelling there is, and no key is dropped in silence."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from handrail.core.errors import InvalidDefinition
from handrail.tools.definition import Binding, ToolDefinition

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
RETURNS: dict[str, Any] = {"type": "object", "properties": {"degrees": {"type": "number"}}}
PLAIN = ToolDefinition("get-weather", "Get the weather.", SCHEMA)

SPELLINGS: dict[str, dict[str, Any]] = {
    "ours": {"name": "get-weather", "description": "Get the weather.", "input_schema": SCHEMA},
    "OpenAI chat": {
        "type": "function",
        "function": {"name": "get-weather", "description": "Get the weather.", "parameters": SCHEMA, "strict": True},
    },
    "OpenAI responses": {
        "type": "function",
        "name": "get-weather",
        "description": "Get the weather.",
        "parameters": SCHEMA,
        "strict": False,
    },
    "Anthropic": {
        "type": "custom",
        "name": "get-weather",
        "description": "Get the weather.",
        "input_schema": SCHEMA,
        "cache_control": {"type": "ephemeral"},
    },
    "HearthNet": {
        "name": "get-weather",
        "description": "Get the weather.",
        "parameters_schema": SCHEMA,
        "bound_capability": None,
        "bound_version": None,
        "side_effects": False,
    },
    "nrv in JS": {
        "name": "get-weather",
        "description": "Get the weather.",
        "inputSchema": SCHEMA,
        "returns": None,
        "timeoutMs": None,
    },
    "nrv snapshot": {
        "name": "get-weather",
        "description": "Get the weather.",
        "input_schema": json.dumps(SCHEMA),
        "returns_schema": None,
        "timeout_ms": None,
    },
    "MCP": {
        "name": "get-weather",
        "title": "Weather",
        "description": "Get the weather.",
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True, "title": "Weather"},
        "icons": [],
        "_meta": {"x": 1},
    },
    "TOML": {
        "invoker": {"name": "get-weather", "enabled": True, "description": "Get the weather."},
        "arguments": SCHEMA,
    },
    "converser": {"name": "get-weather", "description": "Get the weather.", "arguments_schema": SCHEMA},
    "short": {"name": "get-weather", "description": "Get the weather.", "argschema": SCHEMA},
}


@pytest.mark.requirement("nrv.descriptor")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_one_tool_in_any_spelling_is_one_definition(spelling: str) -> None:
    written = copy.deepcopy(SPELLINGS[spelling])

    assert ToolDefinition.from_dict(written) == PLAIN
    assert written == SPELLINGS[spelling]


@pytest.mark.requirement("nrv.descriptor")
@pytest.mark.parametrize("returns", ["returns", "returns_schema", "output_schema", "outputSchema"])
@pytest.mark.parametrize("timeout", ["timeout_ms", "timeoutMs"])
def test_what_a_descriptor_says_of_its_result_and_its_time_is_read(returns: str, timeout: str) -> None:
    written = {"name": "a", "description": "b", "input_schema": SCHEMA, returns: json.dumps(RETURNS), timeout: 1500}

    definition = ToolDefinition.from_dict(written)

    assert definition.returns == definition.output_schema == RETURNS
    assert definition.timeout == 1.5
    assert definition.timeout_ms == 1500


@pytest.mark.requirement("hearthnet.definition")
@pytest.mark.parametrize("keys", [("bound_capability", "bound_version"), ("bound_version", "bound_capability")])
def test_a_bound_capability_and_its_version_are_one_binding(keys: tuple[str, str]) -> None:
    values = {"bound_capability": "rag.query", "bound_version": [2, 1]}
    written = {"name": "search", "description": "d", "parameters_schema": SCHEMA, "side_effects": True}

    definition = ToolDefinition.from_dict({**written, **{key: values[key] for key in keys}})

    assert definition.binding == Binding("rag.query", (2, 1))
    assert definition.binding.scope == "rag.query@2.1"
    assert definition.side_effects
    assert definition.parameters_schema == SCHEMA


def test_a_binding_without_a_version_is_to_the_first() -> None:
    definition = ToolDefinition.from_dict({"name": "a", "bound_capability": "rag.query"})

    assert definition.binding == Binding("rag.query", (1, 0))


@pytest.mark.parametrize(
    ("annotations", "side_effects", "idempotent"),
    [
        ({"readOnlyHint": True}, False, False),
        ({"readOnlyHint": False, "idempotentHint": True}, True, True),
        ({"destructiveHint": False}, True, False),
        ({"readOnlyHint": "yes"}, True, False),
        ({}, True, False),
        (None, True, False),
    ],
)
def test_a_hint_counts_only_if_it_plainly_says_so(annotations: Any, side_effects: bool, idempotent: bool) -> None:
    definition = ToolDefinition.from_dict({"name": "a", "inputSchema": SCHEMA, "annotations": annotations})

    assert (definition.side_effects, definition.idempotent) == (side_effects, idempotent)


def test_what_stands_beside_a_wrapped_definition_belongs_to_it() -> None:
    wrapped = {"type": "function", "function": {"name": "post", "parameters": SCHEMA}, "side_effects": True}
    toml = {"invoker": {"name": "post"}, "arguments": SCHEMA, "timeout": 3.0}

    assert ToolDefinition.from_dict(wrapped).side_effects
    assert ToolDefinition.from_dict(toml).timeout == 3


def test_an_invoker_without_arguments_takes_none() -> None:
    assert ToolDefinition.from_dict({"invoker": {"name": "now"}}).input_schema == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("timout_ms", "timeout_ms"),
        ("side_effect", "side_effects"),
        ("descripton", "description"),
        ("input_shema", "input_schema"),
    ],
)
def test_an_unknown_key_is_refused_with_the_one_that_was_meant(key: str, hint: str) -> None:
    with pytest.raises(InvalidDefinition, match=f"unknown key {key!r}; did you mean {hint!r}"):
        ToolDefinition.from_dict({"name": "a", key: 1})


@pytest.mark.parametrize(
    "written",
    [
        {"name": "a", "zzz": 1},
        {"function": {"name": "a"}, "zzz": 1},
        {"function": {"name": "a", "zzz": 1}},
        {"invoker": {"name": "a"}, "arguments": SCHEMA, "zzz": 1},
        {"invoker": {"name": "a", "zzz": 1}, "arguments": SCHEMA},
    ],
)
def test_an_unknown_key_is_refused_wherever_it_stands(written: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition, match="'zzz'"):
        ToolDefinition.from_dict(written)


@pytest.mark.parametrize(
    "twice",
    [
        {"input_schema": SCHEMA, "parameters": SCHEMA},
        {"parameters_schema": SCHEMA, "inputSchema": SCHEMA},
        {"returns": RETURNS, "output_schema": RETURNS},
        {"timeout": 1, "timeout_ms": 1000},
        {"timeout_ms": 1000, "timeout": 1},
        {"timeout_ms": 1000, "timeoutMs": 1000},
        {"binding": {"capability": "a"}, "bound_capability": "a"},
        {"bound_capability": "a", "binding": {"capability": "a"}},
        {"side_effects": False, "annotations": {"readOnlyHint": False}},
        {"annotations": {"idempotentHint": True}, "idempotent": False},
        {"function": {"name": "a", "description": "in"}, "description": "out"},
        {"invoker": {"name": "a", "input_schema": SCHEMA}, "arguments": SCHEMA},
    ],
)
def test_one_thing_in_two_spellings_is_refused(twice: dict[str, Any]) -> None:
    name = {} if "function" in twice or "invoker" in twice else {"name": "a"}
    with pytest.raises(InvalidDefinition, match="twice"):
        ToolDefinition.from_dict({**name, **twice})


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"description": "no name"},
        {"name": 5},
        {"name": "a", "description": None},
        {"name": "a", "timeout": "5"},
        {"name": "a", "timeout_ms": "500"},
        {"name": "a", "timeout_ms": True},
        {"name": "a", "timeout_ms": 0},
        {"name": "a", "input_schema": "not json"},
        {"name": "a", "input_schema": "[1]"},
        {"name": "a", "input_schema": None},
        {"name": "a", "returns_schema": "{"},
        {"name": "a", "annotations": "readOnly"},
        {"name": "a", "bound_version": [1, 0]},
        {"name": "a", "bound_capability": "b", "bound_version": "1.0"},
        {"name": "a", "bound_capability": "b", "bound_version": [1]},
        {"name": "a", "side_effects": "yes"},
        {"name": "a", "tags": "one"},
        {"name": "a", "models": "one"},
    ],
)
def test_a_wrong_value_is_refused_as_a_mistake_in_the_definition(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition):
        ToolDefinition.from_dict(wrong)
