"""One validator: what it says about wrong values, and which schemas it will not take."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.errors import InvalidArguments, InvalidSchema
from handrail.tools.schema.validator import SchemaBudget, Validator
from tests.examples import examples

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "location": {"type": "string", "minLength": 1},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "items": {"type": "array", "items": {"type": "object", "properties": {"price": {"minimum": 0}}}},
    },
    "required": ["location"],
    "additionalProperties": False,
}

TREE: dict[str, Any] = {
    "type": ["object", "integer"],
    "allOf": [{"properties": {"x": {"$ref": "#"}}}, {"properties": {"x": {"$ref": "#"}}}],
}


def why(schema: Any, budget: SchemaBudget = SchemaBudget()) -> str:
    with pytest.raises(InvalidSchema) as caught:
        Validator(schema, "tool 'x'", budget=budget)
    assert caught.value.where == "tool 'x'"
    return caught.value.why


def nested(depth: int, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = {"x": leaf}
    return leaf


def fan_out(levels: int, keyword: str) -> dict[str, Any]:
    steps = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{levels}": {"type": "string"}}}


# What it says


@pytest.mark.requirement("hearthnet.validation-feedback")
@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ({"location": "Lisbon", "days": None}, []),
        ({"location": 5}, ["location: expected string, got 5 (integer)"]),
        ({"location": ""}, ["location: expected at least 1 character, got ''"]),
        ({"location": "a", "unit": "kelvin"}, ["unit: expected one of 'celsius', 'fahrenheit', got 'kelvin'"]),
        ({}, ["(arguments): missing required 'location'"]),
        ({"location": "a", "uni": 1}, ["(arguments): unknown field 'uni'; did you mean 'unit'?"]),
        ({"location": "a", "q": 1}, ["(arguments): unknown field 'q'"]),
        ({"location": "a", "days": "3"}, ["days: expected integer or null, got '3' (string)"]),
        ({"location": "a", "items": [{}, {}, {}, {"price": -1}]}, ["items[3].price: expected at least 0, got -1"]),
        ([], ["(arguments): expected object, got [] (array)"]),
        (None, ["(arguments): expected object, got null"]),
    ],
)
def test_a_problem_names_the_place_what_was_expected_and_what_came(value: Any, problems: list[str]) -> None:
    assert Validator(WEATHER, "x").problems(value) == problems


@pytest.mark.requirement("hearthnet.validation-feedback")
def test_all_problems_are_told_at_once_and_make_one_message() -> None:
    problems = Validator(WEATHER, "x").problems({"locaton": "Lisbon", "unit": 1})
    assert str(InvalidArguments(problems)) == (
        "invalid_arguments: unit: expected one of 'celsius', 'fahrenheit', got 1; "
        "(arguments): unknown field 'locaton'; did you mean 'location'?; "
        "(arguments): missing required 'location'"
    )


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"const": "a"}, "b", "expected 'a', got 'b'"),
        ({"maximum": 3}, 4, "expected at most 3, got 4"),
        ({"exclusiveMinimum": 3}, 3, "expected more than 3, got 3"),
        ({"exclusiveMaximum": 3}, 3, "expected less than 3, got 3"),
        ({"multipleOf": 2}, 3, "expected a multiple of 2, got 3"),
        ({"pattern": "^a+$"}, "b", "expected text that matches '^a+$', got 'b'"),
        ({"maxLength": 1}, "ab", "expected at most 1 character, got 'ab'"),
        ({"minItems": 2}, [1], "expected at least 2 items, got [1]"),
        ({"maxItems": 0}, [1], "expected at most 0 items, got [1]"),
        ({"minProperties": 1}, {}, "expected at least 1 field, got {}"),
        ({"maxProperties": 0}, {"a": 1}, 'expected at most 0 fields, got {"a": 1}'),
        ({"uniqueItems": True}, [1, 1], "expected items that all differ, got [1, 1]"),
        ({"not": {"type": "null"}}, None, 'expected anything but {"type": "null"}, got null'),
        (
            {"propertyNames": {"maxLength": 1}},
            {"ab": 1},
            "field name 'ab' is not allowed: expected at most 1 character",
        ),
        ({"oneOf": [{}, {}]}, 1, "fits more than one of the allowed forms; make it fit exactly one"),
        ({"anyOf": [{"const": 1}, {"enum": [2, 3]}]}, 4, "expected one of 1, 2, 3, got 4"),
        ({"prefixItems": [True], "unevaluatedItems": False}, [1, 2], "expected no further items, got [1, 2]"),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "format": "date"},
            "x",
            "expected text in the form of a date, got 'x'",
        ),
        (False, 1, "is not allowed here; leave it out"),
    ],
)
def test_each_keyword_has_its_words(schema: dict[str, Any] | bool, value: Any, problem: str) -> None:
    assert Validator(schema, "x", root="(value)").problems(value) == [f"(value): {problem}"]


def test_alternatives_are_told_one_by_one_and_bounded() -> None:
    form = {"properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"]}
    schema = {"properties": {"shape": {"oneOf": [form, {"type": "string"}]}}}
    assert Validator(schema, "x").problems({"shape": {"kind": "square"}}) == [
        'shape: expected one of 2 forms, got {"kind": "square"} (object): '
        "(1) missing required 'radius', kind expected 'circle'; (2) expected string"
    ]
    many = Validator({"anyOf": [{"type": "string"}, *[{"minimum": n} for n in range(1, 50)]]}, "x")
    assert many.problems(0)[0].endswith("(4) expected at least 3; and 46 more")


def test_the_formats_of_later_drafts_are_remarks() -> None:
    assert Validator({"format": "date"}, "x").problems("yesterday") == []


def test_long_values_and_long_lists_are_cut() -> None:
    validator = Validator({"items": {"type": "integer"}}, "x")
    problems = validator.problems(["a" * 500] * 30)
    assert len(problems) == 21
    assert problems[-1] == "… and 10 more"
    assert all(len(problem) < 120 for problem in problems)
    unknown = Validator(WEATHER, "x").problems({"location": "a", **{f"unit{n}": 1 for n in range(5000)}})
    assert unknown[0] == "(arguments): unknown field 'unit0'; did you mean 'unit'?"
    assert unknown[20:] == ["… and 4980 more"]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"password": {"type": "integer", "writeOnly": True}}},
        {"properties": {"password": {"type": "integer", "format": "password"}}},
        {
            "properties": {"password": {"$ref": "#/$defs/secret"}},
            "$defs": {"secret": {"type": "null", "writeOnly": True}},
        },
        {"additionalProperties": {"writeOnly": True, "maxLength": 1}},
        {"patternProperties": {"^p": {"allOf": [{"writeOnly": True}, {"maxLength": 1}]}}},
        {"properties": {"password": {"writeOnly": True}}, "anyOf": [{"required": ["a"]}, {"type": "null"}]},
        {"properties": {"password": {"writeOnly": True, "anyOf": [{"type": "null"}, {"const": 1}]}}},
        {"properties": {"password": {"writeOnly": True}}, "maxProperties": 0},
    ],
)
def test_a_secret_is_never_shown(schema: dict[str, Any]) -> None:
    problems = Validator(schema, "x").problems({"password": "hunter2"})
    assert problems
    assert "hunter2" not in str(problems)
    assert "[redacted]" in str(problems)


@pytest.mark.parametrize("schema", [WEATHER, {}, True, {"type": ["null", "number"]}, {"items": {"const": 1}}])
@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        {"location": math.nan},
        {1: 2},
        {"a": {1}},
        object(),
        b"x",
        "\ud800",
        {"\udc00": 1},
        nested(5000, 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_not_json_is_a_problem_and_never_an_exception(schema: Any, value: Any) -> None:
    (problem,) = Validator(schema, "x").problems(value)
    assert problem.startswith("(arguments): expected a JSON value, but ")


def test_integers_of_any_size_and_tuples_are_checked_as_json_would_be() -> None:
    assert Validator({"type": "integer", "minimum": 10**50}, "x").problems(10**60) == []
    assert Validator({"type": "array"}, "x").problems((1, 2)) == []
    assert Validator({"type": "string"}, "x").problems(10**300) == [
        "(arguments): expected string, got an integer of 997 bits (integer)"
    ]


@given(
    st.integers(1, 50_000).map(lambda digits: 10**digits + 1),
    st.sampled_from([1, -1]),
    st.sampled_from([{"maximum": 10, "minimum": -10}, {"multipleOf": 7}, {"enum": [1]}, {"const": 5}]),
)
def test_an_integer_of_any_length_is_held_to_every_limit(number: int, sign: int, limit: dict[str, Any]) -> None:
    validator = Validator({"type": "object", "properties": {"n": {"type": "integer", **limit}}}, "x")
    fits = "multipleOf" in limit and number % 7 == 0 and number < 10**400
    assert bool(validator.problems({"n": sign * number})) is not fits


def test_an_integer_that_text_could_not_bring_is_refused_with_what_to_do() -> None:
    validator = Validator({"type": "object"}, "x")
    assert validator.problems({"deep": [{"n": 10**399}]}) == []
    for number in (10**400, -(10**400), 10**5000):
        assert validator.problems({"deep": [{"n": number}]}) == [
            "(arguments): expected a JSON value, but an integer has more than 400 digits; send it as text"
        ]


def test_a_later_change_of_the_dict_changes_nothing() -> None:
    schema: dict[str, Any] = {"type": "string"}
    validator = Validator(schema, "x")
    schema["type"] = "integer"
    assert validator.problems("a") == []


def test_a_value_that_would_take_for_ever_to_explain_is_refused_in_one_sentence() -> None:
    validator = Validator(TREE, "x")
    assert validator.problems(nested(60, 1)) == []
    assert validator.problems(nested(3, "a")) == ["x.x.x: expected integer or object, got 'a' (string)"]
    (problem,) = validator.problems(nested(60, "a"))
    assert "too large or too deep to say where" in problem


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["location", "unit", "items", "é.["]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=examples(200))
@given(json_values, st.sampled_from([WEATHER, TREE, fan_out(3, "anyOf"), {"not": {}}]))
def test_problems_are_short_lines_for_any_value(value: Any, schema: dict[str, Any]) -> None:
    for problem in Validator(schema, "x").problems(value):
        assert len(problem) < 1000
        assert problem.isprintable()


# What it refuses


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "strng"}, "at type"),
        ({"required": "a"}, "at required"),
        ({"properties": {"a": {"minimum": "1"}}}, "at properties/a/minimum"),
        ([], "expected an object or a boolean"),
        ({"default": {1, 2}}, "not JSON"),
        ({"const": math.nan}, "not JSON"),
        ({"const": 10**5000}, "more than 400 digits"),
        ({"$schema": "https://example.com/mine"}, "'https://example.com/mine' is unknown"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "unknown"),
        ({"$schema": 7}, "not text"),
        ({"$ref": "#/$defs/a"}, "'#/$defs/a' names nothing"),
        ({"$ref": "#a"}, "'#a' names nothing"),
        ({"pattern": "(?=a)b"}, "look-around and back-references are not supported because they can hang"),
        ({"pattern": r"(a)\1"}, "back-references"),
        ({"patternProperties": {"(?<!a)b": {}}}, "look-around"),
        ({"pattern": "((a{1000}){1000}){1000}"}, "bounded size"),
        ({"$ref": "#"}, "back to itself"),
        ({"allOf": [{"$ref": "#"}]}, "back to itself"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, "back to itself"),
        ({"$dynamicRef": "#a", "$dynamicAnchor": "a"}, "back to itself"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_the_reason(schema: Any, reason: str) -> None:
    assert reason in why(schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"description": "x" * 300_000}, "bytes as JSON"),
        ({"properties": {f"p{n}": {} for n in range(6000)}}, "more than 5000 subschemas"),
        (nested(70, {}), "at most 64 levels"),
        ({"$defs": {"d400": {}, **{f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(400)}}}, "in a row"),
        ({"properties": {f"p{n}": {"pattern": f"^.{{900}}{n}"} for n in range(2000)}}, "bounded size"),
        (fan_out(16, "allOf"), "unfold to more than 20000"),
        (fan_out(16, "anyOf"), "unfold to more than 20000"),
        (fan_out(60, "oneOf"), "unfold to more than 20000"),
    ],
    ids=["bytes", "subschemas", "depth", "chain", "patterns", "allOf", "anyOf", "oneOf"],
)
def test_a_schema_over_its_budget_is_refused(schema: dict[str, Any], reason: str) -> None:
    assert reason in why(schema)


def test_the_budget_can_be_set() -> None:
    assert "at most 10 are allowed" in why(WEATHER, SchemaBudget(bytes=10))
    assert "more than 3 subschemas" in why(WEATHER, SchemaBudget(subschemas=3))
    assert Validator(fan_out(16, "allOf"), "x", budget=SchemaBudget(expansion=1_000_000)).problems("a") == []


def test_a_loop_that_goes_into_the_value_is_fine() -> None:
    validator = Validator({"type": "object", "additionalProperties": {"$ref": "#"}}, "x")
    assert validator.problems({"a": {"b": {}}}) == []
    assert validator.problems({"a": {"b": 1}}) == ["a.b: expected object, got 1 (integer)"]


def test_a_pattern_of_some_length_is_fine() -> None:
    assert Validator({"pattern": "^.{1,2000}$"}, "x").problems("é" * 2000) == []


def test_a_hostile_pattern_runs_in_linear_time() -> None:
    assert Validator({"pattern": "^(a+)+$"}, "x").problems("a" * 50_000 + "!") != []


@pytest.mark.requirement("nrv.schema-dialects")
def test_the_dialect_is_the_one_the_schema_names() -> None:
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "exclusiveMinimum": True}
    assert Validator(draft4, "x").problems(3) == ["(arguments): expected more than 3, got 3"]
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}
    assert Validator(old, "x").problems([1]) == ["[0]: expected string, got 1 (integer)"]
    assert "at items" in why({"items": [{"type": "string"}]})


# Nothing is read


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """A web server, and the list of what was asked of it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}", asked
        http.shutdown()
        thread.join()


@pytest.mark.requirement("nrv.schema-dialects")
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
)
def test_a_reference_never_causes_a_request(server: tuple[str, list[str]], keyword: str, draft: str) -> None:
    url, asked = server
    assert f"{url}/a.json" in why({"$schema": draft, "properties": {"a": {keyword: f"{url}/a.json"}}})
    assert "leads out of the schema" in why({"$schema": draft, "$id": f"{url}/", "allOf": [{keyword: "b.json#/x"}]})
    assert "is unknown" in why({"$schema": f"{url}/meta.json"})
    Validator({"$schema": draft, "$id": f"{url}/c.json", "const": {keyword: f"{url}/d.json"}}, "x").problems(1)
    assert asked == []
    urlopen(f"{url}/seen").close()
    assert asked == ["/seen"]


@pytest.mark.requirement("nrv.schema-dialects")
def test_a_reference_never_causes_a_file_to_be_read(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"type": "string"}')
    for reference in (file.as_uri(), str(file), "a.json", f"../{tmp_path.name}/a.json"):
        assert repr(reference) in why({"properties": {"a": {"$ref": reference}}})
    assert "leads out of the schema" in why({"$id": file.as_uri().replace("a.json", ""), "$ref": "a.json"})


def test_a_reference_that_is_data_is_left_alone() -> None:
    data = {"$ref": "http://example.com/a.json"}
    validator = Validator({"enum": [data], "default": data, "examples": [data], "properties": {"$ref": {}}}, "x")
    assert validator.problems(data) == []


def test_the_built_in_meta_schemas_may_be_referred_to() -> None:
    draft7 = "http://json-schema.org/draft-07/schema#"
    validator = Validator({"$schema": draft7, "$ref": draft7}, "x")
    assert validator.problems({"type": "string"}) == []
    assert validator.problems({"minLength": -1}) != []
