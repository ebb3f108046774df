"""Lenient reading: what has one plain meaning is read and reported, anything else is left unread."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.jsontext import JSONTextError, parse_object
from handrail.execute.repair import (
    BACKSLASH,
    BOM,
    CLOSED,
    COMMA,
    FENCE,
    KEY,
    LINE_BREAK,
    PYTHON,
    SINGLE_QUOTES,
    SMART_QUOTES,
    coerce_arguments,
    repair_arguments,
)
from tests.examples import examples

REPAIRED: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ('```json\n{"a": 1}\n```', {"a": 1}, (FENCE,)),
    ('  ```\n{"a": 1}```  ', {"a": 1}, (FENCE,)),
    ('```{"a": "```"}```', {"a": "```"}, (FENCE,)),
    ('{"a": 1,}', {"a": 1}, (COMMA,)),
    ('{"a": [1, 2 , ], "b": {"c": 3,},}', {"a": [1, 2], "b": {"c": 3}}, (COMMA,)),
    ("{'a': 'b'}", {"a": "b"}, (SINGLE_QUOTES,)),
    ("{'a': 'say \"hi\"'}", {"a": 'say "hi"'}, (SINGLE_QUOTES,)),
    (r"{'a': 'it\'s'}", {"a": "it's"}, (SINGLE_QUOTES, BACKSLASH)),
    (r'{"a": "it\'s"}', {"a": "it's"}, (BACKSLASH,)),
    ('{"a": True, "b": False, "c": None}', {"a": True, "b": False, "c": None}, (PYTHON,)),
    ("{a: 1, b_2: true, c-d: null}", {"a": 1, "b_2": True, "c-d": None}, (KEY,)),
    ("{true: 1}", {"true": 1}, (KEY,)),
    ('{"a": {"b": ["c"', {"a": {"b": ["c"]}}, (CLOSED,)),
    ('{"a": true', {"a": True}, (CLOSED,)),
    ('{"a": 1\n', {"a": 1}, (CLOSED,)),
    ('{"a": "one\ntwo\tthree\r"}', {"a": "one\ntwo\tthree\r"}, (LINE_BREAK,)),
    ('\ufeff{"a": 1}', {"a": 1}, (BOM,)),
    ('{“a”: “b”, ‘c’: ‘d "e"’}', {"a": "b", "c": 'd "e"'}, (SMART_QUOTES,)),
    ("```python\n{'a': True,}\n```", {"a": True}, (FENCE, SINGLE_QUOTES, PYTHON, COMMA)),
]

UNSURE = {
    "two objects": "{}{}",
    "two objects in a fence": '```\n{"a": 1}\n{"b": 2}\n```',
    "two fences": '```\n{"a": 1}\n```\n```\n{"b": 2}\n```',
    "an empty fence": "```json\n```",
    "prose before": 'Here you go: {"a": 1}',
    "prose after": '{"a": 1} Done.',
    "a number at the end may lack digits": '{"amount": 1',
    "a string is cut": '{"path": "/tmp/fi',
    "more was to come after a comma": '{"a": 1,',
    "more was to come after a colon": '{"a":',
    "more was to come after a bracket": '{"a": [',
    "a key is cut off from its value": '{"a"',
    "a word is cut": '{"a": tru',
    "nothing but a brace": "{",
    "the wrong bracket": '{"a": [1}',
    "a bracket too many": "{'a': 1}}",
    "a key twice": "{'a': 1, 'a': 2}",
    "a lonely comma": "{,}",
    "two commas": '{"a": 1,, "b": 2}',
    "quotes in quotes": '{"a": "say "hi" now"}',
    "an apostrophe in single quotes": "{'a': 'it's'}",
    "an escape that Python and JSON read differently": r"{'a': '\/'}",
    "an escape of Python only": r"{'a': '\x41'}",
    "an unquoted value": '{"a": paris}',
    "not a number": "{'a': NaN}",
    "a leading zero": "{'a': 01}",
    "a number as a key": "{1: 2}",
    "half of a surrogate pair": r"{'a': '\ud800'}",
    "a call": "{'a': open('x')}",
    "a tuple": "{'a': (1, 2)}",
    "a comment": '{"a": 1 /* one */}',
    "a list": "[1, 2,]",
    "valid JSON that is not an object": "[1, 2]",
    "too deep": '{"a":' * 101 + "'b'" + "}" * 101,
}


@pytest.mark.requirement("nrv.warnings")
@pytest.mark.parametrize(("text", "value", "warnings"), REPAIRED, ids=[text for text, _, _ in REPAIRED])
def test_what_has_one_meaning_is_read_with_a_warning_per_kind(
    text: str, value: dict[str, Any], warnings: tuple[str, ...]
) -> None:
    with pytest.raises(JSONTextError):
        parse_object(text)
    assert repair_arguments(text) == (value, warnings)


@pytest.mark.parametrize("text", UNSURE.values(), ids=UNSURE)
def test_what_may_mean_two_things_is_not_read(text: str) -> None:
    assert repair_arguments(text) is None


@pytest.mark.parametrize("text", ["", "null", "{}", ' {"a": [1, 2.5, "x:y"]} '])
def test_json_is_returned_as_it_is_without_warnings(text: str) -> None:
    assert repair_arguments(text) == (parse_object(text), ())


HOSTILE = {
    "escapes": '{"a":"' + "\\a" * 200_000,
    "quotes": "{" + "'" * 200_000,
    "braces": "{a:" * 100_000,
    "spaces in a fence": "```" + " " * 500_000 + "```",
    "backticks": "`" * 500_000,
    "commas": "{'a': [" + "1," * 200_000,
    "too long": "{" + " " * (11 * 1024 * 1024),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_long_text_without_a_meaning_is_given_up(text: str) -> None:
    assert repair_arguments(text) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=4)


@given(json_objects, st.booleans(), st.sampled_from([None, 2]))
def test_any_json_object_comes_back_unchanged(value: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    assert repair_arguments(json.dumps(value, ensure_ascii=ascii_only, indent=indent)) == (value, ())


@given(json_objects)
def test_a_fence_around_any_json_object_is_the_only_thing_removed(value: dict[str, Any]) -> None:
    assert repair_arguments(f"```json\n{json.dumps(value)}\n```") == (value, (FENCE,))


@given(st.dictionaries(st.text("ab'\"é "), st.booleans() | st.none() | st.text("ab'\"é "), min_size=1))
def test_a_python_dict_is_read_as_it_was_written(value: dict[str, Any]) -> None:
    found = repair_arguments(repr(value))
    assert found is not None
    assert found[0] == value


@settings(max_examples=examples(200))
@given(json_objects, st.data())
def test_a_cut_text_gives_nothing_that_was_not_written(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    found = repair_arguments(text[: data.draw(st.integers(1, len(text)))])
    if found is not None:
        assert found[0].keys() <= value.keys()
        for key, item in found[0].items():
            assert isinstance(item, (dict, list)) or item == value[key]


@settings(max_examples=examples(200))
@given(st.text(alphabet="{}[]\"':,`\\ \nabTruefalsNon01.-“”’"))
def test_any_text_is_read_or_not_and_never_raises(text: str) -> None:
    found = repair_arguments(text)
    if found is not None and not found[1]:
        assert parse_object(text) == found[0]


SCHEMA: dict[str, Any] = {
    "properties": {
        "count": {"type": "integer"},
        "price": {"type": "number"},
        "loud": {"type": "boolean"},
        "name": {"type": "string"},
        "either": {"type": ["integer", "string"]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "place": {"$ref": "#/$defs/place"},
        "places": {"type": "array", "items": {"$ref": "#/$defs/place"}},
        "anything": {},
        "lost": {"$ref": "#/$defs/lost"},
        "loop": {"$ref": "#/properties/loop"},
    },
    "$defs": {"place": {"properties": {"lat": {"type": "number"}}}},
}


@pytest.mark.requirement("nrv.warnings")
@pytest.mark.parametrize(
    ("arguments", "read", "warnings"),
    [
        ({"count": "3"}, {"count": 3}, ("count: read text as integer",)),
        ({"price": "-1.5e1"}, {"price": -15.0}, ("price: read text as number",)),
        ({"loud": "true"}, {"loud": True}, ("loud: read text as boolean",)),
        ({"loud": "False"}, {"loud": False}, ("loud: read text as boolean",)),
        ({"maybe": "7"}, {"maybe": 7}, ("maybe: read text as integer",)),
        ({"place": {"lat": "1"}}, {"place": {"lat": 1}}, ("place.lat: read text as integer",)),
        (
            {"places": [{"lat": 1}, {"lat": "2.5"}]},
            {"places": [{"lat": 1}, {"lat": 2.5}]},
            ("places[1].lat: read text as number",),
        ),
    ],
)
def test_text_is_read_as_the_number_or_boolean_the_schema_wants(
    arguments: dict[str, Any], read: dict[str, Any], warnings: tuple[str, ...]
) -> None:
    before = json.dumps(arguments)
    assert coerce_arguments(arguments, SCHEMA) == (read, warnings)
    assert json.dumps(arguments) == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"count": "3.5"},
        {"count": "three"},
        {"count": "0x3"},
        {"count": "true"},
        {"count": ""},
        {"count": "9" * 500},
        {"price": "NaN"},
        {"price": "1e999"},
        {"price": "1,5"},
        {"loud": "yes"},
        {"loud": "1"},
        {"maybe": "null"},
        {"name": "3"},
        {"either": "3"},
        {"anything": "3"},
        {"lost": "3"},
        {"loop": "3"},
        {"unknown": "3"},
        {"places": "3"},
        {"place": ["3"]},
    ],
    ids=str,
)
def test_text_that_is_not_plainly_what_the_schema_wants_stays_text(arguments: dict[str, Any]) -> None:
    assert coerce_arguments(arguments, SCHEMA) == (arguments, ())


@given(json_objects, st.sampled_from([SCHEMA, {}, {"properties": []}, {"properties": {"": True}}]))
def test_any_arguments_are_coerced_or_left_and_never_raise(value: dict[str, Any], schema: dict[str, Any]) -> None:
    read, warnings = coerce_arguments(value, schema)
    assert (read == value) is (warnings == ())
