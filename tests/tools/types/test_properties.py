"""For any tree of types: a value that the schema accepts converts, and the schema accepts what the type can be."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, Union
from uuid import UUID

from hypothesis import HealthCheck, given, settings, strategies as st

from handrail.tools.schema.validator import Validator
from handrail.tools.types.converters import converter_of_node
from handrail.tools.types.schema import schema_of
from handrail.tools.types.type_nodes import read_type
from tests.examples import examples
from tests.tools.types import type_samples

Pair = tuple[Any, st.SearchStrategy[Any]]
"""An annotation, and JSON values for it."""

_DATES = st.dates().map(str)
_NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
_LEAVES: list[Pair] = [
    (str, st.text(st.characters(codec="utf-8"))),
    (int, st.integers(-(2**53), 2**53) | st.integers(-1000, 1000).map(float)),
    (float, _NUMBERS | st.integers(-1000, 1000)),
    (bool, st.booleans()),
    (None, st.none()),
    (date, _DATES),
    (datetime, st.datetimes().map(lambda value: value.isoformat() + "Z")),
    (time, st.times().map(str)),
    (timedelta, st.integers(0, 999).map(lambda days: f"P{days}DT1H")),
    (UUID, st.uuids().map(str)),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False).map(str) | _NUMBERS),
    (bytes, st.just("aGk=")),
    (Literal["a", 1, True], st.sampled_from(["a", 1, True, 1.0])),
    (type_samples.Colour, st.sampled_from(["red", 7])),
    (type_samples.Point, st.fixed_dictionaries({"x": _NUMBERS}, optional={"y": _NUMBERS})),
    (type_samples.Movie, st.fixed_dictionaries({"title": st.just("M")}, optional={"year": st.just(1931.0)})),
    (type_samples.Cat, st.fixed_dictionaries({"type": st.just("cat")}, optional={"livesLeft": st.integers(1, 9)})),
    (type_samples.Address, st.fixed_dictionaries({"street": st.just("s")})),
]


def _of(origin: Any, *arguments: Any) -> Any:
    return origin[arguments]


def _nest(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    two = st.tuples(inner, inner)
    return st.one_of(
        inner.map(lambda pair: (_of(list, pair[0]), st.lists(pair[1], max_size=3))),
        inner.map(lambda pair: (_of(tuple, pair[0], ...), st.lists(pair[1], max_size=3))),
        inner.map(lambda pair: (_of(dict, str, pair[0]), st.dictionaries(st.sampled_from("abc"), pair[1]))),
        inner.map(lambda pair: (_of(type_samples.Box, pair[0]), st.fixed_dictionaries({"content": pair[1]}))),
        inner.map(lambda pair: (_of(Union, pair[0], None), pair[1] | st.none())),
        two.map(lambda pair: (_of(tuple, pair[0][0], pair[1][0]), st.tuples(pair[0][1], pair[1][1]).map(list))),
        two.map(lambda pair: (_of(Union, pair[0][0], pair[1][0]), pair[0][1] | pair[1][1])),
    )


_PAIRS: st.SearchStrategy[Pair] = st.recursive(st.sampled_from(_LEAVES), _nest, max_leaves=4)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_value_of_a_type_is_accepted_and_converts(data: st.DataObject) -> None:
    annotation, values = data.draw(_PAIRS)
    value = data.draw(values)
    assert Validator(schema_of(annotation), "generated").problems(value) == []
    convert = converter_of_node(read_type(annotation))
    if convert is not None:
        convert(value)


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.just(1.5) | st.sampled_from(["a", "red", "title", "cat"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["x", "y", "title", "content", "street"]), inner, max_size=2)
    ),
    max_leaves=5,
)
_ANNOTATIONS = st.sampled_from(
    [
        int | list[int] | type_samples.Point,
        dict[str, float] | type_samples.Movie | str,
        type_samples.Box[int] | type_samples.Box[str] | None,
        tuple[int, str] | list[type_samples.Colour] | type_samples.Colour,
        type_samples.Address | type_samples.Point | bool,
        set[str] | frozenset[int] | float,
    ]
)


@settings(max_examples=examples(200), deadline=None)
@given(_ANNOTATIONS, _JSON)
def test_whatever_the_schema_accepts_converts(annotation: Any, value: Any) -> None:
    if not Validator(schema_of(annotation), "generated").problems(value):
        convert = converter_of_node(read_type(annotation))
        assert convert is not None
        convert(value)
