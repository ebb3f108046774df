"""A definition is a value: frozen, equal to its equals, whole after a trip through JSON."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import InvalidDefinition
from handrail.tools.definition import KEBAB, NAME, Binding, ToolDefinition

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=4)
bindings = st.builds(
    Binding,
    texts,
    st.tuples(st.integers(0, 99), st.integers(0, 99)),
    st.lists(texts, max_size=3).map(tuple),
    st.dictionaries(texts, texts, max_size=3),
    objects,
)
definitions = st.builds(
    ToolDefinition,
    st.from_regex(NAME, fullmatch=True),
    texts,
    objects.map(lambda schema: {**schema, "type": "object"}),
    st.none() | objects,
    st.booleans(),
    st.booleans(),
    st.none() | st.floats(1e-3, 1e6),
    st.none() | bindings,
    st.none() | st.lists(texts, max_size=3).map(tuple),
    st.lists(texts, max_size=3).map(tuple),
)


@pytest.mark.requirement("nrv.descriptor")
@given(definitions)
def test_any_definition_comes_back_from_json_as_it_was(definition: ToolDefinition) -> None:
    written = msgspec.json.decode(msgspec.json.encode(definition.to_dict()))

    assert ToolDefinition.from_dict(written) == definition


@pytest.mark.requirement("hearthnet.definition")
def test_a_definition_carries_everything_a_caller_must_know() -> None:
    definition = ToolDefinition(
        "market.post",
        "Post an offer.",
        {"type": "object"},
        side_effects=True,
        binding=Binding("market.post", (1, 2)),
    )

    assert definition.to_dict() == {
        "name": "market.post",
        "description": "Post an offer.",
        "input_schema": {"type": "object"},
        "side_effects": True,
        "binding": {"capability": "market.post", "version": (1, 2)},
    }


@pytest.mark.requirement("hearthnet.definition")
@pytest.mark.parametrize("field", ToolDefinition.__struct_fields__)
def test_no_field_of_a_definition_can_be_set(field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(ToolDefinition("a"), field, None)


@pytest.mark.requirement("hearthnet.definition")
def test_a_later_change_of_the_dict_it_was_made_from_changes_nothing() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    returns: dict[str, Any] = {"type": "object", "properties": {}}
    made = ToolDefinition("a", "", schema, returns)
    read = ToolDefinition.from_dict({"name": "a", "input_schema": schema, "returns": returns})

    schema["properties"]["a"]["type"] = "string"
    returns["properties"]["b"] = {}

    assert made == read
    assert made.input_schema == {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert made.output_schema == {"type": "object", "properties": {}}


def test_a_change_of_what_was_written_changes_nothing() -> None:
    definition = ToolDefinition("a", "", {"type": "object", "properties": {}}, {"type": "object"})
    written = definition.to_dict()

    written["input_schema"]["properties"]["b"] = {}
    written["output_schema"]["type"] = "string"

    assert definition == ToolDefinition("a", "", {"type": "object", "properties": {}}, {"type": "object"})


def test_two_definitions_share_no_default() -> None:
    assert ToolDefinition("a").input_schema is not ToolDefinition("b").input_schema


@pytest.mark.parametrize("name", ["a", "A_b", "read-file", "rag.query", "_x", "0", "a" * 128])
def test_names_that_every_provider_can_be_given_are_taken(name: str) -> None:
    assert ToolDefinition(name).name == name


@pytest.mark.parametrize("name", ["", "a b", "-a", ".a", "a:b", "a" * 129, "naïve", "a\n", "a/b", "<lambda>", "ａ"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidDefinition, match="cannot be used"):
        ToolDefinition(name)


@pytest.mark.parametrize("name", ["a", "read-file", "v2-read-3"])
def test_kebab_case_is_lowercase_words_joined_by_dashes(name: str) -> None:
    assert KEBAB.fullmatch(name)


@pytest.mark.parametrize("name", ["", "A", "read_file", "-a", "a-", "a--b", "2a", "a.b", "readFile", "a\n"])
def test_other_names_are_not_kebab_case(name: str) -> None:
    assert not KEBAB.fullmatch(name)


@pytest.mark.parametrize("timeout", [0, -1, 0.0, math.nan, math.inf])
def test_a_timeout_that_is_no_time_is_refused(timeout: float) -> None:
    with pytest.raises(InvalidDefinition, match="timeout"):
        ToolDefinition("a", timeout=timeout)


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": ["object"]}, True, [], None])
def test_arguments_that_are_no_object_are_refused(schema: Any) -> None:
    with pytest.raises(InvalidDefinition, match="must describe an object"):
        ToolDefinition("a", "", schema)


def test_a_schema_without_end_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    deepest = schema
    for _ in range(100_000):
        deepest["not"] = deepest = {}

    with pytest.raises(InvalidDefinition, match="too deeply"):
        ToolDefinition("a", "", schema)
    while schema:  # or freeing it would recurse as deep
        schema = schema.pop("not", {})


def test_a_definition_is_read_off_a_function_and_changes_override_it() -> None:
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    definition = ToolDefinition.from_function(add, name="plus", timeout=2.0)

    assert (definition.name, definition.description, definition.timeout) == ("plus", "Add two numbers.", 2.0)
    assert definition.input_schema["required"] == ["a"]
    assert definition.output_schema == {"type": "integer"}
