"""A schema by a service's rules: none is broken, nothing goes unreported, and nothing but the reported is refused."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from inline_snapshot import snapshot

from handrail.models.projection.project import Projected, project
from handrail.models.projection.rules import (
    ANTHROPIC,
    ANTHROPIC_REPLY,
    BEDROCK,
    FULL,
    GEMINI,
    GEMINI_REPLY,
    OLLAMA,
    OPENAI,
    OPENAI_REPLY,
    OPENAI_STRICT,
    SchemaRules,
)
from handrail.tools.schema.left_out_nulls import without_nulls
from tests.examples import examples
from tests.models.schema_rule_checks import violations

Schema = dict[str, Any]
REPLIES = [OPENAI_REPLY, ANTHROPIC_REPLY, GEMINI_REPLY]
ALL = [FULL, OPENAI, OPENAI_STRICT, ANTHROPIC, GEMINI, OLLAMA, BEDROCK, *REPLIES]
SILENT = {"$schema", "$id", "$anchor", "$comment", "$defs", "definitions"}


def arguments(properties: Schema, *required: str, **more: Any) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
        **more,
    }


_CITY = arguments(
    {
        "city": {"type": "string", "description": "Where", "minLength": 1},
        "unit": {"enum": ["c", "f"], "default": "c"},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "near": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    },
    "city",
    **{
        "$defs": {
            "Point": arguments({"x": {"type": "number"}, "y": {"type": "number"}}, "x", "y"),
        }
    },
)


@pytest.mark.parametrize("rules", ALL, ids=lambda rules: rules.name)
def test_the_given_schema_is_not_changed(rules: SchemaRules) -> None:
    before = copy.deepcopy(_CITY)
    assert violations(project(_CITY, rules).schema, rules) == []
    assert before == _CITY


@pytest.mark.parametrize("rules", [FULL, OPENAI, ANTHROPIC, BEDROCK], ids=lambda rules: rules.name)
def test_services_that_take_json_schema_get_it_as_it_is(rules: SchemaRules) -> None:
    assert project(_CITY, rules) == Projected(_CITY)


def test_the_strict_form_of_openai() -> None:
    assert project(_CITY, OPENAI_STRICT) == snapshot(
        Projected(
            schema={
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where"},
                    "unit": {"type": ["string", "null"], "enum": ["c", "f", None], "description": 'Default: "c".'},
                    "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 9},
                    "near": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
                    "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
                },
                "required": ["city", "unit", "days", "near", "tags"],
                "additionalProperties": False,
                "$defs": {
                    "Point": {
                        "type": "object",
                        "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                        "required": ["x", "y"],
                        "additionalProperties": False,
                    }
                },
            },
            lost=("#/properties/city: minLength", "#/properties/tags: uniqueItems"),
            narrowed=(),
        )
    )


def test_the_form_of_gemini() -> None:
    assert project(_CITY, GEMINI) == snapshot(
        Projected(
            schema={
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where"},
                    "unit": {"enum": ["c", "f"], "description": 'Default: "c".'},
                    "days": {"type": "integer", "minimum": 1, "maximum": 9},
                    "near": {
                        "anyOf": [
                            {
                                "type": "object",
                                "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                                "required": ["x", "y"],
                                "additionalProperties": False,
                            },
                            {"type": "null"},
                        ]
                    },
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
            lost=("#/properties/city: minLength", "#/properties/tags: uniqueItems"),
            narrowed=(),
        )
    )


def test_the_form_of_ollama() -> None:
    assert project(_CITY, OLLAMA) == snapshot(
        Projected(
            schema={
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where"},
                    "unit": {"enum": ["c", "f"], "description": 'Default: "c".'},
                    "days": {"type": "integer"},
                    "near": {
                        "anyOf": [
                            {
                                "type": "object",
                                "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                                "required": ["x", "y"],
                            },
                            {"type": "null"},
                        ]
                    },
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["city"],
            },
            lost=(
                "#/properties/city: minLength",
                "#/properties/days: minimum",
                "#/properties/days: maximum",
                "#/$defs/Point: additionalProperties",
                "#/properties/tags: uniqueItems",
                "#: additionalProperties",
            ),
            narrowed=(),
        )
    )


def test_the_strict_form_says_where_it_cannot_be_told() -> None:
    schema = arguments(
        {"any": {}, "map": {"type": "object", "additionalProperties": {"type": "integer"}}}, "any", "map"
    )
    projected = project(schema, OPENAI_STRICT)
    assert projected.narrowed == ("#/properties/any: type", "#/properties/map: additionalProperties")
    assert projected.lost == ("#/properties/map: additionalProperties",)
    assert violations(projected.schema, OPENAI_STRICT) == []


def test_a_recursive_schema_stays_recursive_where_references_are_taken_and_is_cut_where_not() -> None:
    node = arguments({"next": {"$ref": "#/$defs/Node"}, "of": {"$ref": "#", "description": "d"}})
    schema = arguments(
        {"first": {"$ref": "#/$defs/Node", "description": "The first."}}, "first", **{"$defs": {"Node": node}}
    )
    strict = project(schema, OPENAI_STRICT)
    assert violations(strict.schema, OPENAI_STRICT) == []
    assert strict.lost == ("#/$defs/Node/properties/of: description",)
    assert strict.schema["properties"]["first"]["description"] == "The first."
    cut = project(schema, GEMINI)
    assert violations(cut.schema, GEMINI) == []
    assert cut.lost == ("#/$defs/Node/properties/next: $ref", "#/$defs/Node/properties/of: $ref")


def test_references_that_would_grow_without_end_are_cut() -> None:
    defs: Schema = {f"d{n}": arguments({k: {"$ref": f"#/$defs/d{n + 1}"} for k in "ab"}) for n in range(40)}
    schema = arguments({"x": {"$ref": "#/$defs/d0"}}, **{"$defs": {**defs, "d40": {"type": "string"}}})
    projected = project(schema, GEMINI)
    assert violations(projected.schema, GEMINI) == []
    assert any(entry.endswith(": $ref") for entry in projected.lost)


@pytest.mark.parametrize("rules", [rules for rules in ALL if rules is not FULL], ids=lambda rules: rules.name)
def test_a_union_at_the_root_becomes_one_object_with_all_its_properties(rules: SchemaRules) -> None:
    cat = arguments({"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "kind", "lives")
    dog = arguments({"kind": {"const": "dog"}, "name": {"type": "string"}}, "kind")
    projected = project({"anyOf": [{"$ref": "#/$defs/Cat"}, dog], "$defs": {"Cat": cat}}, rules)
    assert violations(projected.schema, rules) == []
    assert "#: anyOf" in projected.lost
    assert list(projected.schema["properties"]) == ["kind", "lives", "name"]
    assert rules.strict or projected.schema["required"] == ["kind"]


def test_a_root_that_is_a_reference_becomes_what_it_names() -> None:
    schema = {"$ref": "#/$defs/Args", "$defs": {"Args": arguments({"x": {"type": "integer"}}, "x")}}
    for rules in ALL[1:]:
        projected = project(schema, rules)
        assert violations(projected.schema, rules) == []
        assert projected.schema["properties"] == {"x": {"type": "integer"}}


def test_parts_of_all_are_put_together_where_that_says_the_same() -> None:
    base = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    schema = arguments(
        {"p": {"allOf": [{"$ref": "#/$defs/Base"}], "description": "A point."}}, **{"$defs": {"Base": base}}
    )
    assert project(schema, GEMINI).schema["properties"] == {"p": {"description": "A point.", **base}}
    clash = arguments({"p": {"type": "object", "additionalProperties": False, "allOf": [base]}})
    assert project(clash, GEMINI).lost == ("#/properties/p: allOf",)


def test_in_old_dialects_a_reference_hides_what_is_beside_it() -> None:
    schema = arguments(
        {"x": {"$ref": "#/definitions/X", "minimum": 9, "description": "d"}}, definitions={"X": {"type": "integer"}}
    )
    schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    assert project(schema, GEMINI).schema["properties"]["x"] == {"description": "d", "type": "integer"}
    assert project(schema, GEMINI).lost == ()


def test_nulls_that_stand_for_left_out_are_taken_out_again() -> None:
    given = {"city": "Ulm", "unit": None, "days": None, "near": None, "tags": None}
    assert without_nulls(given, _CITY) == {"city": "Ulm", "near": None}
    nested = arguments({"all": {"type": "array", "items": {"$ref": "#/$defs/N"}}}, **{"$defs": {"N": _CITY}})
    assert without_nulls({"all": [{"city": None, "unit": None}, None]}, nested) == {"all": [{"city": None}, None]}
    assert without_nulls({"unknown": None}, _CITY) == {"unknown": None}


# Generated schemas: every keyword that the rules treat in a way of its own, and some that none of them takes.
_NAMES = ["a", "b", "c"]
_LITERALS = st.sampled_from(["x", "y", 1, 2.5, True, None])
_SCALARS: st.SearchStrategy[Schema] = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "minLength": st.just(1),
            "pattern": st.sampled_from(["^x", "^(?=x)"]),
            "format": st.sampled_from(["date", "uri"]),
            "default": st.just("x"),
            "description": st.just("d"),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number", ["integer", "null"]])},
        optional={"minimum": st.just(0), "exclusiveMaximum": st.just(2), "multipleOf": st.just(1)},
    ),
    st.builds(lambda values: {"enum": values}, st.lists(_LITERALS, min_size=1, max_size=3, unique_by=repr)),
    st.builds(lambda value: {"const": value}, _LITERALS),
    st.sampled_from([{}, {"type": "null"}, {"type": "boolean"}, {"type": "array"}, {"not": {"type": "string"}}]),
    st.sampled_from(
        [{"$ref": "#/$defs/D"}, {"$ref": "#/$defs/D", "description": "d"}, {"$ref": "#/$defs/E", "minimum": 1}]
    ),
)


def _objects(inner: st.SearchStrategy[Any], *, closed: bool) -> st.SearchStrategy[Schema]:
    openness = st.just(False) if closed else st.booleans() | inner
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3)},
        optional={
            "required": st.lists(st.sampled_from(_NAMES), unique=True, max_size=2),
            "minProperties": st.just(1),
            **({} if closed else {"patternProperties": st.just({"^a": {"type": "string"}})}),
        }
        | ({} if closed else {"additionalProperties": openness}),
    ).map(lambda schema: {**schema, "additionalProperties": False} if closed else schema)


def _nest(closed: bool) -> Any:
    def nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
        several = st.lists(inner, min_size=1, max_size=2)
        return st.one_of(
            _objects(inner, closed=closed),
            st.fixed_dictionaries(
                {"type": st.just("array")},
                optional={"items": inner, "prefixItems": several, "uniqueItems": st.just(True), "maxItems": st.just(2)},
            ),
            st.builds(lambda subs: {"anyOf": subs}, several),
            st.builds(lambda subs: {"oneOf": subs, "title": "t"}, several),
            st.builds(lambda subs: {"allOf": subs}, several),
            st.builds(lambda subs, more: {**more, "anyOf": subs}, several, _SCALARS),
            st.builds(lambda subs, more: {**more, "allOf": subs}, several, inner),
            st.builds(lambda sub: {"type": "object", "properties": {"a": sub}, "unevaluatedProperties": False}, inner),
        )

    return nest


def _roots(*, closed: bool = False) -> st.SearchStrategy[Schema]:
    inner = st.recursive(_SCALARS, _nest(closed), max_leaves=5)
    inner = inner if closed else inner | st.booleans()
    root = _objects(inner, closed=closed)
    if not closed:
        root = (
            root
            | st.builds(lambda a, b: {**a, "anyOf": [b]}, root, root)
            | st.builds(lambda a, b: {"anyOf": [a, b]}, root, root)
        )
    recursive = arguments({"a": {"$ref": "#/$defs/E"}, "b": {"type": "integer"}}, "b")
    return st.builds(lambda schema, d: {**schema, "$defs": {"D": d, "E": recursive}}, root, inner)


_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["x", "y", "", 0, 1, 2, 2.5, True, None]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*_NAMES, "aa"]), inner, max_size=3),
    max_leaves=5,
)
_ARGUMENTS = st.dictionaries(st.sampled_from([*_NAMES, "aa"]), _VALUES, max_size=3)
_THOROUGH = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def takes(schema: Schema, value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(schema).is_valid(value)


def compiles(schema: Schema) -> bool:
    try:
        return takes(schema, {}) or True
    except jsonschema_rs.ValidationError:
        return False


@_THOROUGH
@given(_roots(), st.sampled_from(ALL))
def test_a_projection_breaks_none_of_the_rules(schema: Schema, rules: SchemaRules) -> None:
    projected = project(schema, rules)
    assert violations(projected.schema, rules) == []
    assert compiles(projected.schema)


def _keywords(schema: Any, pointer: str) -> list[tuple[str, str]]:
    """Every keyword of every subschema, and where it stands."""
    if not isinstance(schema, dict):
        return [(pointer, "false")] if schema is False else []
    found = [(pointer, key) for key in schema]
    for key in ("properties", "$defs"):
        for name, sub in schema.get(key, {}).items():
            found += _keywords(sub, f"{pointer}/{key}/{name}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for place, sub in enumerate(schema.get(key, ())):
            found += _keywords(sub, f"{pointer}/{key}/{place}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict) or (key == "items" and key in schema):
            found += _keywords(schema[key], f"{pointer}/{key}")
    return found


@_THOROUGH
@given(_roots(), st.sampled_from([OLLAMA, GEMINI]))
def test_what_is_lost_is_named_where_it_stood_and_every_keyword_not_taken_is_named(
    schema: Schema, rules: SchemaRules
) -> None:
    lost = project(schema, rules).lost
    everything = {f"{pointer}: {key}" for pointer, key in _keywords(schema, "#")}
    # A root's branches are offered together, so a place below them has another pointer in the result.
    moved = {entry for entry in lost if "anyOf" in schema and entry.endswith(": required")}
    assert set(lost) - moved <= everything
    assert rules.keywords is not None
    reworded = {"const", "default", "allOf", "oneOf", "$ref", "items", "prefixItems", "additionalProperties", *SILENT}
    used = {p for p, _ in _keywords({k: v for k, v in schema.items() if k != "$defs"}, "#")}
    gone = tuple(entry.replace(": ", "/") for entry in lost)
    for pointer, key in _keywords(schema, "#"):
        with_the_whole = f"{pointer}/".startswith(tuple(f"{where}/" for where in gone))
        if pointer in used and not with_the_whole and key not in rules.keywords | reworded and key != "false":
            assert f"{pointer}: {key}" in lost


@_THOROUGH
@given(_roots(), _ARGUMENTS, st.sampled_from([rules for rules in ALL if not rules.strict]))
def test_what_the_full_schema_takes_the_projection_takes_too(
    schema: Schema, value: dict[str, Any], rules: SchemaRules
) -> None:
    assume(takes(schema, value))
    assert takes(project(schema, rules).schema, value)


@_THOROUGH
@given(_roots(), _ARGUMENTS, st.sampled_from([rules for rules in ALL if not rules.strict]))
def test_a_projection_that_lost_nothing_takes_no_more_than_the_full_schema(
    schema: Schema, value: dict[str, Any], rules: SchemaRules
) -> None:
    projected = project(schema, rules)
    assume(not projected.lost)
    assert takes(projected.schema, value) == takes(schema, value)


@_THOROUGH
@given(_roots(closed=True), _ARGUMENTS)
def test_a_strict_value_without_its_nulls_fits_the_full_schema_if_nothing_was_lost(
    schema: Schema, value: dict[str, Any]
) -> None:
    projected = project(schema, OPENAI_STRICT)
    limits = [entry for entry in projected.lost if not entry.endswith((": default", ": description"))]
    assume(not limits and takes(projected.schema, value))
    assert takes(schema, without_nulls(value, schema))


def _filled(value: Any, schema: Schema, defs: Schema) -> Any:
    """A value as a model writes it under strict rules: null for what is left out."""
    if "$ref" in schema:
        return _filled(value, defs[schema["$ref"].removeprefix("#/$defs/")], defs)
    for branch in schema.get("anyOf", ()):
        tried = _filled(value, branch, defs)
        if takes({**branch, "$defs": defs}, tried):
            return tried
    if isinstance(value, list) and "items" in schema:
        return [_filled(item, schema["items"], defs) for item in value]
    if isinstance(value, dict) and "properties" in schema:
        known = {name: _filled(value.get(name), sub, defs) for name, sub in schema["properties"].items()}
        return {**value, **known}
    return value


@_THOROUGH
@given(_roots(closed=True), _ARGUMENTS)
def test_what_the_full_schema_takes_can_be_written_under_strict_rules_but_where_the_report_says(
    schema: Schema, value: dict[str, Any]
) -> None:
    projected = project(schema, OPENAI_STRICT)
    assume("#/$defs/D" not in repr(schema["$defs"]))  # a reference that leads to itself is refused long before
    assume(not projected.narrowed and takes(schema, value))
    assert takes(projected.schema, _filled(value, projected.schema, projected.schema.get("$defs", {})))
