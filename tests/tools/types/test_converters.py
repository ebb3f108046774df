"""JSON values arrive as the types that were asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import annotated_types
import msgspec
import pydantic
import pytest

from handrail.core.redact import Secret
from handrail.tools.schema.validator import Validator
from handrail.tools.types.converters import converter_of_node
from handrail.tools.types.schema import schema_of
from handrail.tools.types.type_nodes import read_type
from tests.tools.types import type_samples

NOON = "2025-01-31T12:00:00Z"
IDENTITY = "12345678-1234-5678-1234-567812345678"


def convert(annotation: Any, value: Any) -> Any:
    """As the executor does it: the schema first."""
    assert Validator(schema_of(annotation), "test").problems(value) == []
    made = converter_of_node(read_type(annotation))
    return value if made is None else made(value)


@pytest.mark.parametrize(
    "annotation",
    [
        Any,
        str,
        bool,
        None,
        str | None,
        list,
        list[str],
        Sequence[str],
        Iterable[bool],
        dict,
        dict[str, Any],
        Mapping[str, list[str]],
        Literal["a", "b"],
        Literal["a", True, None],
        Annotated[str, annotated_types.MinLen(1)],
        type_samples.T,
    ],
)
def test_json_that_already_is_the_value_is_not_converted(annotation: Any) -> None:
    assert converter_of_node(read_type(annotation)) is None


@pytest.mark.requirement("abstractllm.types")
@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, 1.0, 1),
        (float, 1, 1.0),
        (type_samples.UserId, 7.0, 7),
        (Secret, "hush", Secret("hush")),
        (Path, "a/b", Path("a/b")),
        (bytes, "aGk=", b"hi"),
        (UUID, IDENTITY, UUID(IDENTITY)),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, 0.1, Decimal("0.1")),
        (datetime, NOON, datetime(2025, 1, 31, 12, tzinfo=UTC)),
        (datetime, NOON.lower(), datetime(2025, 1, 31, 12, tzinfo=UTC)),
        (datetime, "2025-01-31T12:00:00", datetime(2025, 1, 31, 12)),
        (date, "2025-01-31", date(2025, 1, 31)),
        (time, "12:30:00Z", time(12, 30, tzinfo=UTC)),
        (timedelta, "P1DT2H30M1.5S", timedelta(days=1, hours=2, minutes=30, seconds=1.5)),
        (timedelta, "P2W", timedelta(weeks=2)),
        (Literal[1, True], 1.0, 1),
        (Literal[1, True], True, True),
        (type_samples.Colour, "red", type_samples.Colour.RED),
        (type_samples.Colour, 7, type_samples.Colour.SEVEN),
        (Literal[type_samples.Level.HIGH], 2, type_samples.Level.HIGH),
        (list[int], [1, 2.0], [1, 2]),
        (list[date], ["2025-01-31"], [date(2025, 1, 31)]),
        (tuple[str, int], ["a", 1.0], ("a", 1)),
        (tuple[str, bool], ["a", True], ("a", True)),
        (tuple[str, ...], ["a"], ("a",)),
        (tuple, ["a"], ("a",)),
        (set[str], ["a", "b"], {"a", "b"}),
        (frozenset[int], [1, 2], frozenset({1, 2})),
        (deque[str], ["a"], deque(["a"])),
        (dict[str, date], {"a": "2025-01-31"}, {"a": date(2025, 1, 31)}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (dict[type_samples.Level, int], {"2": 1.0}, {type_samples.Level.HIGH: 1}),
        (type_samples.Point, {"x": 1}, type_samples.Point(1.0)),
        (type_samples.Scaled, {"factor": 3}, type_samples.Scaled(3)),
        (type_samples.Box[date], {"content": "2025-01-31"}, type_samples.Box(date(2025, 1, 31))),
        (type_samples.IntBox, {"content": 1.0, "label": "l"}, type_samples.IntBox(1, "l")),
        (type_samples.Tree, {"value": 1, "children": [{"value": 2}]}, type_samples.Tree(1, [type_samples.Tree(2)])),
        (type_samples.Movie, {"title": "M", "year": 1931.0}, {"title": "M", "year": 1931}),
        (type_samples.Partial, {"seen": ["a"]}, {"seen": {"a"}}),
        (type_samples.Partial, {}, {}),
        (type_samples.Span, {"start": 1}, type_samples.Span(1)),
        (type_samples.Cat, {"type": "cat", "livesLeft": 3}, type_samples.Cat(3)),
        (
            type_samples.Person,
            {"name": "n", "home": {"street": "s"}},
            type_samples.Person(name="n", home=type_samples.Address(street="s")),
        ),
        (type_samples.Holder, {"value": {"a": [1, None, "x"]}}, type_samples.Holder({"a": [1.0, None, "x"]})),
    ],
)
def test_a_value_becomes_the_type_asked_for(annotation: Any, value: Any, expected: Any) -> None:
    made = convert(annotation, value)
    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.requirement("abstractllm.types")
@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int | None, 1.0, 1),
        (int | None, None, None),
        (int | float, 1, 1),
        (float | int, 1, 1),
        (int | float, 1.0, 1.0),
        (int | Decimal, 1.5, Decimal("1.5")),
        (bool | int, True, True),
        (int | bool, True, True),
        (str | date, "2025-01-31", date(2025, 1, 31)),
        (str | date, "tomorrow", "tomorrow"),
        (date | datetime, NOON, datetime(2025, 1, 31, 12, tzinfo=UTC)),
        (str | type_samples.Colour, "red", type_samples.Colour.RED),
        (str | type_samples.Colour, "blue", "blue"),
        (str | list[int], [1.0], [1]),
        (list[int] | list[str], ["a"], ["a"]),
        (list[date] | tuple[date, date], ["2025-01-31"] * 2, (date(2025, 1, 31),) * 2),
        (dict[str, Any] | type_samples.Point, {"x": 1}, type_samples.Point(1.0)),
        (dict[str, Any] | type_samples.Point, {"z": 1}, {"z": 1}),
        (type_samples.Point | type_samples.Span, {"start": 1}, type_samples.Span(1)),
        (type_samples.Cat | type_samples.Dog, {"type": "dog"}, type_samples.Dog()),
        (type_samples.Person | type_samples.Address, {"street": "s"}, type_samples.Address(street="s")),
        (Annotated[int, annotated_types.Ge(10)] | Path, "x", Path("x")),
        (Any | date, "x", "x"),
    ],
)
def test_a_union_gives_the_member_that_fits_best(annotation: Any, value: Any, expected: Any) -> None:
    made = convert(annotation, value)
    assert made == expected
    assert type(made) is type(expected)


def test_a_recursive_alias_converts_at_every_depth() -> None:
    assert convert(type_samples.Nested, [["2025-01-31"], []]) == [[date(2025, 1, 31)], []]


def test_a_value_nested_beyond_the_stack_is_a_value_error() -> None:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    made = converter_of_node(read_type(type_samples.Nested))
    assert made is not None
    with pytest.raises(ValueError, match="too deeply"):
        made(value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (datetime, "yesterday"),
        (date, "2025-02-30"),
        (time, "noon"),
        (timedelta, "P1Y"),
        (timedelta, "P"),
        (timedelta, "PT"),
        (timedelta, "P999999999999D"),
        (UUID, "x"),
        (bytes, "*"),
        (float, 10**399),
        (Annotated[Decimal, annotated_types.Ge(0)], "-1"),
        (Annotated[bytes, annotated_types.MinLen(3)], "aGk="),
        (Annotated[date, annotated_types.Gt(date(2025, 1, 1))], "2024-12-31"),
        (Annotated[int, annotated_types.Predicate(lambda value: value != 3)], 3),
        (date | UUID, "x"),
    ],
)
def test_what_only_the_type_can_refuse_is_a_value_error(annotation: Any, value: Any) -> None:
    with pytest.raises(ValueError) as caught:
        convert(annotation, value)
    assert str(caught.value)


def test_a_limit_on_an_optional_type_leaves_none_alone() -> None:
    assert convert(Annotated[Decimal | None, annotated_types.Ge(0)], None) is None
    assert convert(Annotated[Decimal | None, annotated_types.Ge(0)], "2") == 2


def test_the_refusal_of_a_pydantic_validator_is_a_value_error() -> None:
    class Even(pydantic.BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def even(cls, number: int) -> int:
            if number % 2:
                raise ValueError("use an even number")
            return number

    with pytest.raises(ValueError, match="even number"):
        convert(Even, {"number": 1})


def test_an_unset_field_stays_unset() -> None:
    class Patch(msgspec.Struct):
        day: date | msgspec.UnsetType = msgspec.UNSET

    assert convert(Patch, {}) == Patch()
    assert convert(Patch, {"day": "2025-01-31"}) == Patch(date(2025, 1, 31))


def test_a_post_init_runs() -> None:
    @dataclass
    class Checked:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("below zero")

    with pytest.raises(ValueError, match="below zero"):
        convert(Checked, {"number": -1})
