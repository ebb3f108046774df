"""The schema of every sort of type, and the types that have none."""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import annotated_types
import jsonschema_rs
import msgspec
import pydantic
import pytest
import typing_extensions
from inline_snapshot import snapshot

from handrail.core.errors import InvalidDefinition
from handrail.core.redact import Secret, secret_fields
from handrail.tools.types.schema import schema_of
from tests.tools.types import type_samples

HIDDEN = Secret("sk-0123456789")
ORIGIN = type_samples.Point(1.0)
SPAN = type_samples.Span(1)


@pytest.mark.requirement("abstractllm.types")
@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045 - the old spelling is meant
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007 - likewise
        (int | str | None, {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1, True, None], {"enum": ["a", 1, True, None]}),
        (type_samples.Level, {"type": "integer", "enum": [1, 2]}),
        (type_samples.Colour, {"description": "What it looks like.", "enum": ["red", 7]}),
        (list, {"type": "array", "items": {}}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (Iterable[str], {"type": "array", "items": {"type": "string"}}),
        (collections.deque[str], {"type": "array", "items": {"type": "string"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (frozenset[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (tuple, {"type": "array", "items": {}}),
        (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        ),
        (dict, {"type": "object"}),
        (dict[str, Any], {"type": "object"}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict[Literal["a"], Any], {"type": "object", "propertyNames": {"type": "string", "enum": ["a"]}}),
        (dict[type_samples.Level, Any], {"type": "object", "propertyNames": {"type": "string", "enum": ["1", "2"]}}),
        (datetime, {"type": "string", "format": "date-time"}),
        (date, {"type": "string", "format": "date"}),
        (time, {"type": "string", "format": "time"}),
        (timedelta, {"type": "string", "format": "duration"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Path, {"type": "string"}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (Secret, {"type": "string", "writeOnly": True}),
        (type_samples.UserId, {"type": "integer"}),
        (type_samples.T, {}),
        (type_samples.Bounded, {"type": "integer"}),
        (typing_extensions.TypeAliasType("Names", list[str]), {"type": "array", "items": {"type": "string"}}),
    ],
)
def test_a_type_has_its_schema(annotation: Any, schema: dict[str, Any]) -> None:
    assert schema_of(annotation) == schema


@pytest.mark.requirement("abstractllm.types")
@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Annotated[int, typing_extensions.Doc("how many")], {"type": "integer", "description": "how many"}),
        (Annotated[int, annotated_types.Gt(1), annotated_types.Le(5)], {"exclusiveMinimum": 1, "maximum": 5}),
        (Annotated[float, annotated_types.Interval(ge=0, lt=1)], {"minimum": 0, "exclusiveMaximum": 1}),
        (Annotated[int, annotated_types.MultipleOf(5)], {"multipleOf": 5}),
        (Annotated[str, annotated_types.MinLen(1), annotated_types.MaxLen(9)], {"minLength": 1, "maxLength": 9}),
        (Annotated[list[int], annotated_types.Len(2, 3)], {"minItems": 2, "maxItems": 3}),
        (Annotated[dict[str, int], annotated_types.MinLen(1)], {"minProperties": 1}),
        (Annotated[list[int] | str, annotated_types.MaxLen(3)], {"maxItems": 3, "maxLength": 3}),
        (Annotated[str, msgspec.Meta(pattern="^a", title="A", examples=["ab"])], {"pattern": "^a", "title": "A"}),
        (Annotated[int, msgspec.Meta(extra_json_schema={"x-unit": "m"})], {"x-unit": "m"}),
        (Annotated[int, pydantic.Field(ge=3, description="d")], {"minimum": 3, "description": "d"}),
        (Annotated[str, pydantic.Field(max_length=4, pattern="b")], {"maxLength": 4, "pattern": "b"}),
        (Annotated[str, pydantic.StringConstraints(min_length=2)], {"minLength": 2}),
        (
            Annotated[Annotated[int, annotated_types.Ge(5)], annotated_types.Ge(1)],
            {"minimum": 5, "allOf": [{"minimum": 1}]},
        ),
    ],
)
def test_what_annotated_says_is_in_the_schema(annotation: Any, schema: dict[str, Any]) -> None:
    made = schema_of(annotation)
    assert {key: made.get(key) for key in schema} == schema


@pytest.mark.parametrize("metadata", [object(), 3, int, type_samples.Opaque, {"ge": 1}, re.IGNORECASE])
def test_metadata_of_others_is_left_alone(metadata: Any) -> None:
    assert schema_of(Annotated[int, metadata]) == {"type": "integer"}


def test_a_limit_of_length_on_a_number_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match="length"):
        schema_of(Annotated[int, annotated_types.MinLen(1)])


@pytest.mark.requirement("abstractllm.types")
def test_records_are_closed_objects_with_their_defaults() -> None:
    assert schema_of(type_samples.Point) == snapshot(
        {
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}},
            "required": ["x"],
            "additionalProperties": False,
        }
    )
    assert schema_of(type_samples.Movie) == snapshot(
        {
            "type": "object",
            "properties": {"title": {"type": "string"}, "year": {"type": "integer", "minimum": 1888}},
            "required": ["title"],
            "additionalProperties": False,
        }
    )
    assert schema_of(type_samples.Span) == snapshot(
        {
            "type": "object",
            "properties": {"start": {"type": "integer"}, "end": {"type": "integer", "default": -1}},
            "required": ["start"],
            "additionalProperties": False,
        }
    )
    assert schema_of(type_samples.Dog) == snapshot(
        {
            "type": "object",
            "properties": {
                "type": {"type": "string", "enum": ["dog"]},
                "friend": {
                    "anyOf": [
                        {
                            "type": "object",
                            "properties": {
                                "type": {"type": "string", "enum": ["cat"]},
                                "livesLeft": {"type": "integer", "default": 9},
                            },
                            "required": ["type"],
                            "additionalProperties": False,
                        },
                        {"type": "null"},
                    ],
                    "default": None,
                },
            },
            "required": ["type"],
            "additionalProperties": False,
        }
    )


@pytest.mark.requirement("abstractllm.types")
def test_a_recursive_type_refers_to_its_own_definition() -> None:
    assert schema_of(type_samples.Tree) == snapshot(
        {
            "$ref": "#/$defs/Tree",
            "$defs": {
                "Tree": {
                    "description": "A tree of numbers.",
                    "type": "object",
                    "properties": {
                        "value": {"type": "integer", "description": "What the node holds."},
                        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []},
                    },
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
        }
    )


@pytest.mark.requirement("abstractllm.types")
def test_a_pydantic_model_makes_its_own_schema() -> None:
    assert schema_of(list[type_samples.Person]) == snapshot(
        {
            "type": "array",
            "items": {
                "properties": {
                    "name": {"title": "Name", "type": "string"},
                    "home": {"$ref": "#/$defs/Address"},
                    "work": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}], "default": None},
                },
                "required": ["name", "home"],
                "title": "Person",
                "type": "object",
            },
            "$defs": {
                "Address": {
                    "properties": {"street": {"title": "Street", "type": "string"}},
                    "required": ["street"],
                    "title": "Address",
                    "type": "object",
                }
            },
        }
    )
    folder = schema_of(dict[str, type_samples.Folder])
    assert folder["additionalProperties"] == {"$ref": "#/$defs/Folder"}
    assert set(folder["$defs"]) == {"Folder"}


def test_a_named_type_used_twice_is_defined_once() -> None:
    schema = schema_of(tuple[type_samples.Point, type_samples.Point])
    assert schema["prefixItems"] == [{"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Point"}]
    assert set(schema["$defs"]) == {"Point"}


def test_two_types_of_one_name_are_kept_apart() -> None:
    @dataclass
    class Address:
        zip: int

    person = {"name": "n", "home": {"street": "s"}, "work": {"street": "t"}}
    samples_of: list[tuple[Any, list[Any]]] = [
        (tuple[Address, Address, type_samples.Person], [{"zip": 1}, {"zip": 2}, person]),
        (tuple[type_samples.Person, Address, Address], [person, {"zip": 1}, {"zip": 2}]),
        (tuple[type_samples.Address, Address, type_samples.Address], [{"street": "s"}, {"zip": 1}, {"street": "t"}]),
    ]
    for annotation, value in samples_of:
        validator = jsonschema_rs.validator_for(schema_of(annotation))
        assert validator.is_valid(value)
        assert not validator.is_valid([{"zip": "no", "street": 1, "name": 1}] * 3)


def test_old_and_new_recursive_aliases_are_defined_once() -> None:
    assert schema_of(type_samples.Holder)["$defs"]["Json"]["anyOf"][1] == {
        "type": "array",
        "items": {"$ref": "#/$defs/Json"},
    }
    assert schema_of(type_samples.Nested) == {
        "$ref": "#/$defs/Nested",
        "$defs": {
            "Nested": {
                "anyOf": [
                    {"type": "array", "items": {"$ref": "#/$defs/Nested"}},
                    {"type": "string", "format": "date"},
                ]
            }
        },
    }


def test_a_generic_class_takes_its_arguments_also_through_a_base() -> None:
    assert schema_of(type_samples.Box[int])["properties"] == {"content": {"type": "integer"}}
    assert schema_of(type_samples.Box)["properties"] == {"content": {}}
    assert schema_of(type_samples.IntBox)["properties"]["content"] == {"type": "integer"}
    both = schema_of(tuple[type_samples.Box[int], type_samples.Box[int], type_samples.Box[str], type_samples.Box[str]])
    assert set(both["$defs"]) == {"Box_int", "Box_str"}


def test_a_secret_is_known_as_one_and_its_default_is_not_shown() -> None:
    @dataclass(frozen=True)
    class Login:
        key: Secret = HIDDEN
        other: Secret | None = None

    schema = schema_of(Login)
    assert "default" not in schema["properties"]["key"]
    assert "sk-0" not in str(schema)
    assert "key" in secret_fields(schema)


def test_a_default_is_shown_only_where_json_has_it() -> None:
    @dataclass
    class Defaults:
        path: Path = Path("a/b")
        colour: type_samples.Colour = type_samples.Colour.RED
        day: date = date(2025, 1, 2)
        price: Decimal = Decimal("1.50")
        point: type_samples.Point = ORIGIN
        ratio: float = math.inf
        span: type_samples.Span = SPAN
        what: Any = type_samples.Opaque

    properties = schema_of(Defaults)["properties"]
    shown = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    assert shown == {
        "path": "a/b",
        "colour": "red",
        "day": "2025-01-02",
        "price": "1.50",
        "point": {"x": 1.0, "y": 0.0},
    }


def test_an_init_var_is_a_field_and_one_that_init_does_not_take_is_not() -> None:
    assert set(schema_of(type_samples.Scaled)["properties"]) == {"factor"}
    assert set(schema_of(type_samples.Tree)["$defs"]["Tree"]["properties"]) == {"value", "children"}


class Rows(msgspec.Struct, array_like=True):
    a: int


@dataclass(init=False)
class OwnInit:
    a: int

    def __init__(self, b: int) -> None:
        self.a = b


@pytest.mark.parametrize(
    "annotation",
    [
        Callable[[int], str],
        Callable,
        type_samples.Opaque,
        re.Pattern,
        re,
        type[int],
        complex,
        5,
        "int",
        list["Missing"],  # type: ignore[name-defined]  # noqa: F821 - the name is meant to be missing
        dict[float, str],
        dict[tuple[int, int], str],
        Literal[b"x"],
        Rows,
        OwnInit,
        list[type_samples.Opaque],
    ],
)
def test_a_type_without_a_json_form_is_refused(annotation: Any) -> None:
    with pytest.raises(InvalidDefinition):
        schema_of(annotation)


def test_the_refusal_names_the_class_and_says_what_to_use() -> None:
    with pytest.raises(InvalidDefinition, match=r"'Opaque'.*dataclass"):
        schema_of(dict[str, type_samples.Opaque])


SAMPLES = [
    each for each in vars(type_samples).values() if isinstance(each, type) and each.__module__ == type_samples.__name__
]


@pytest.mark.parametrize("annotation", [each for each in SAMPLES if each is not type_samples.Opaque])
def test_every_sample_gives_a_schema_that_is_one(annotation: Any) -> None:
    jsonschema_rs.meta.validate(schema_of(annotation))
