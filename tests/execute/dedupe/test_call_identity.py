"""Which calls are the same call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail.execute.dedupe.matching import call_digest
from tests.examples import examples

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.text(st.characters(categories=["Cs"]), min_size=1, max_size=1)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(max_size=4), values, max_size=4)


def reordered(value: Any) -> Any:
    match value:
        case dict():
            return {key: reordered(value[key]) for key in reversed(list(value))}
        case list():
            return [reordered(item) for item in value]
    return value


def equal(one: Any, other: Any) -> bool:
    """Equality of JSON: Python's, but true is not 1, and an integer beyond 2^53 is equal to no float."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(equal, one, other))
        case bool(), _:
            return one is other
        case _, bool():
            return False
        case (int(), float()) | (float(), int()):
            return bool(one == other and abs(one) < 2**53)
    return bool(one == other)


@given(arguments)
def test_the_order_of_keys_makes_no_difference(given_arguments: dict[str, Any]) -> None:
    assert call_digest("tool", given_arguments) == call_digest("tool", reordered(given_arguments))


@given(arguments)
def test_arguments_that_went_over_the_wire_and_back_are_the_same_call(given_arguments: dict[str, Any]) -> None:
    assert call_digest("tool", given_arguments) == call_digest("tool", json.loads(json.dumps(given_arguments)))


@settings(max_examples=examples(300))
@given(arguments, arguments)
def test_two_calls_have_one_key_exactly_if_their_arguments_are_equal_json(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert (call_digest("tool", one) == call_digest("tool", other)) == equal(one, other)


@given(leaves, leaves)
def test_two_values_have_one_key_exactly_if_they_are_equal_json(one: Any, other: Any) -> None:
    assert (call_digest("tool", {"x": one}) == call_digest("tool", {"x": other})) == equal(one, other)


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), ("1", 1), (None, ""), (None, False), ([], {})])
def test_values_of_different_kinds_are_different_calls(one: Any, other: Any) -> None:
    assert call_digest("tool", {"x": one}) != call_digest("tool", {"x": other})


def test_a_number_written_with_and_without_a_point_is_the_same_call() -> None:
    assert call_digest("tool", {"x": 1}) == call_digest("tool", {"x": 1.0})


def test_a_missing_key_is_not_a_null() -> None:
    assert call_digest("tool", {"x": None}) != call_digest("tool", {})


@given(st.text(max_size=6), st.text(max_size=6))
def test_the_name_of_the_tool_is_part_of_the_key(one: str, other: str) -> None:
    assert (call_digest(one, {"x": 1}) == call_digest(other, {"x": 1})) == (one == other)
