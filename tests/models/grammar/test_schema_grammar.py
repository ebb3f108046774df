"""What a grammar accepts is JSON that fits the schema, or `lost` says what is not enforced."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st
from inline_snapshot import snapshot

from handrail.core.errors import InvalidSchema
from handrail.models.grammar.grammar_rules import Grammar
from handrail.models.grammar.schema_grammar import GrammarBuilder
from handrail.tools.schema.validator import Validator
from tests.models.grammar.grammar_walk import walk

TREE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["value", "children"],
    "additionalProperties": False,
}
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["b"]},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {}, "c": {"type": "null"}}},
    {"type": "object", "required": ["x"], "additionalProperties": {"type": "boolean"}},
    {"type": "object", "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "number"}},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "items": False, "minItems": 1},
    {"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}, "minItems": 3, "maxItems": 5},
    {"type": "array", "maxItems": 0},
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "pattern": "^[A-Z]{2}-\\d{3,5}(?:\\.(?:jpg|png))?$"},
    {"type": "string", "enum": ["a", "b\n", '"', "é", 3]},
    {"enum": [1, None, {"a": [True]}]},
    {"const": {"k": "<\\>"}},
    {"type": ["string", "null"], "maxLength": 3},
    {"type": "integer", "minimum": -2, "maximum": 9},
    {"type": "integer", "exclusiveMinimum": 0},
    {"type": "integer", "minimum": 0},
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "boolean"}}]},
    {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    {"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}, "n": {"type": "integer"}}, "required": ["k"]},
               {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]}]},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
               {"properties": {"a": {"minLength": 2}, "b": {"type": "null"}}, "required": ["b"]}]},
    {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/b"}}, "b": {"const": 1}}},
    {"type": "object", "properties": {"t": {"$ref": "#/definitions/t"}}, "definitions": {"t": {"type": "null"}}},
    {"type": "object",
     "properties": {"a": {"$ref": "#/$defs/e"}, "b": {"anyOf": [{"$ref": "#/$defs/e"}, {"const": 1}]}},
     "$defs": {"e": {"type": "object", "properties": {"x": {"$ref": "#/$defs/e"}}, "required": ["x"]}}},
    TREE,
]  # fmt: skip

scalars = st.sampled_from(
    [{"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}, {}, True,
     {"enum": ["x", 1]}, {"const": None}, {"type": "string", "maxLength": 3}, {"type": ["integer", "null"]},
     {"type": "integer", "minimum": 1, "maximum": 3}, {"$ref": "#"}, {"type": "string", "pattern": "^a+b?$"},
     {"type": "number", "minimum": 1}, {"type": "string", "format": "date"}]
)  # fmt: skip
names = st.text(max_size=4)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda properties, required, more: {
            "type": "object",
            "properties": properties,
            "required": sorted(required & properties.keys()),
            **({} if more is None else {"additionalProperties": more}),
        },
        st.dictionaries(names, inner, max_size=4),
        st.sets(names, max_size=2),
        st.none() | st.booleans(),
    )


def arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda items, least, extra: {"type": "array", "items": items, "minItems": least, "maxItems": least + extra},
        inner,
        st.integers(0, 2),
        st.integers(0, 2),
    )


schemas = st.recursive(
    scalars,
    lambda inner: (
        objects(inner)
        | arrays(inner)
        | st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": options})
        | st.lists(inner, min_size=1, max_size=2).map(lambda options: {"allOf": options})
        | st.lists(inner, min_size=1, max_size=2).map(lambda options: {"oneOf": options})
    ),
    max_leaves=6,
)


def gbnf(schema: Any) -> Grammar:
    """The grammar of one schema."""
    builder = GrammarBuilder()
    return builder.grammar(builder.add(schema, "the schema"))


def check(schema: Any, seed: int) -> None:
    grammar = gbnf(schema)
    text = walk(grammar, random.Random(seed))
    value = json.loads(text)
    if not grammar.lost:
        assert Validator(schema, "test").problems(value) == []


@pytest.mark.requirement("hearthnet.backends.grammar")
@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_everything_that_a_grammar_accepts_fits_its_schema(schema: dict[str, Any]) -> None:
    assert gbnf(schema).lost == ()
    for seed in range(200):
        check(schema, seed)


@given(objects(schemas), st.integers())
def test_whatever_the_schema_the_grammar_accepts_only_what_fits_or_says_what_is_lost(schema: Any, seed: int) -> None:
    try:
        Validator(schema, "test")
        gbnf(schema)
    except InvalidSchema:
        assume(False)
    check(schema, seed)


@pytest.mark.parametrize(
    ("schema", "lost"),
    [
        ({"type": "number", "minimum": 3}, ("(root): minimum",)),
        ({"type": "integer", "maximum": 3}, ("(root): maximum",)),
        ({"type": "integer", "multipleOf": 3}, ("(root): multipleOf",)),
        ({"type": "string", "pattern": "a|b"}, ("(root): pattern",)),
        ({"type": "string", "pattern": '^"$'}, ("(root): pattern",)),
        ({"type": "string", "format": "date"}, ("(root): format",)),
        ({"type": "string", "maxLength": 100_000}, ("(root): maxLength",)),
        ({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}, ("/a: uniqueItems",)),
        ({"not": {"type": "string"}}, ("(root): not",)),
        ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 2}]}, ("(root): oneOf",)),
        ({"allOf": [{"pattern": "^a$"}, {"pattern": "^b$"}], "type": "string"}, ("(root): allOf",)),
    ],
)
def test_what_a_grammar_cannot_enforce_is_named(schema: dict[str, Any], lost: tuple[str, ...]) -> None:
    assert gbnf(schema).lost == lost


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"enum": []},
        {"type": "string", "enum": [1]},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/$defs/none"},
        {"$ref": "http://example.org/x"},
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"type": "array", "items": False, "minItems": 1},
        {"allOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    ],
)
def test_a_schema_that_nothing_fits_or_that_leads_outside_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidSchema):
        gbnf(schema)


def test_the_text_is_what_llama_cpp_reads() -> None:
    grammar = gbnf(
        {
            "type": "object",
            "properties": {"days": {"type": "integer"}, "unit": {"enum": ["C", "F"]}},
            "required": ["days"],
        }
    )

    assert grammar.text == snapshot("""\
root ::= "{" r2 "}"
r0 ::= "\\"unit\\": " ("\\"C\\"" | "\\"F\\"")
r1 ::= ", " r0 | ""
r2 ::= ("\\"days\\": " integer) r1
integer ::= ("-"?) ("0" | [1-9] ([0-9]{0,14}))
""")
