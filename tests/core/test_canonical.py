"""Canonical JSON: RFC 8785 where it has a spelling, and one of ours for every value where it has none."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import rfc8785
from hypothesis import given, strategies as st

from handrail.core.canonical import canonical_json, digest, digest_bytes

any_text = st.text(st.characters())
texts = st.text(st.characters(exclude_categories=["Cs"]))
keys = texts.filter(lambda key: not key.startswith("$"))
in_rfc = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner),
    max_leaves=15,
)  # fmt: skip
odd_keys = st.sampled_from(["$", "$int", "$$int", "$text", "$float", "$text:d800", "a"]) | any_text
odd = st.recursive(
    st.integers(min_value=2**53) | st.integers(max_value=-(2**53)) | st.integers(-3, 3) | st.booleans() | st.none()
    | st.sampled_from([math.nan, math.inf, -math.inf, 0.5]) | st.sampled_from(["d800", "nan", "NaN", "0x20"])
    | any_text | st.text(st.characters(categories=["Cs"]), max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_keys, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Equal as JSON values: 1 is not true, NaN is NaN, and a list is a tuple."""
    match one, other:
        case bool(), bool():
            return one is other
        case bool(), _:
            return False
        case _, bool():
            return False
        case (int() | float(), int() | float()):
            return one == other or (one != one and other != other)
        case list() | tuple(), list() | tuple():
            return len(one) == len(other) and all(map(same, one, other))
        case dict(), dict():
            return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


@given(in_rfc)
def test_where_rfc_8785_has_a_spelling_it_is_this_one(value: Any) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)


@given(odd, odd)
def test_two_values_share_a_spelling_only_if_they_are_the_same(one: Any, other: Any) -> None:
    assert (canonical_json(one) == canonical_json(other)) == same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (2**53, {"$int": "0x20000000000000"}),
        (2**53, {"$$int": "0x20000000000000"}),
        (2**53, "0x20000000000000"),
        (2**53, -(2**53)),
        (2**70, 2**70 + 1),
        (math.nan, {"$float": "nan"}),
        (math.inf, -math.inf),
        (math.nan, None),
        ("\ud800", "\udc00"),
        ("\ud800", {"$text": "d800"}),
        ({"\ud800": 1}, {"$text:d800": 1}),
        ({"$a": 1}, {"$$a": 1}),
        ({"a": 1}, {"$a": 1}),
        ([1], [[1]]),
        (1, True),
        ("", None),
    ],
)
def test_look_alikes_have_spellings_of_their_own(one: Any, other: Any) -> None:
    assert canonical_json(one) != canonical_json(other)


@given(st.dictionaries(any_text, odd, min_size=2), st.randoms(use_true_random=False))
def test_the_order_of_keys_makes_no_difference(value: dict[str, Any], chance: random.Random) -> None:
    shuffled = list(value.items())
    chance.shuffle(shuffled)

    assert canonical_json(dict(shuffled)) == canonical_json(value)


def test_keys_are_ordered_as_utf_16_code_units() -> None:
    assert canonical_json({"\ufb33": 1, "\U0001f600": 2, "a": 3}) == '{"a":3,"\U0001f600":2,"\ufb33":1}'.encode()


def test_a_tuple_is_a_list_and_a_subclass_is_what_it_extends() -> None:
    class Text(str):
        __slots__ = ()

    assert canonical_json((1, (2,))) == canonical_json([1, [2]])
    assert canonical_json({Text("a"): Text("b")}) == b'{"a":"b"}'


def test_an_integer_of_any_length_has_a_spelling() -> None:
    assert canonical_json(10**5000) != canonical_json(10**5000 + 1)


@pytest.mark.parametrize("value", [object(), {1: 2}, {None: 1}, b"bytes", {"a": {1, 2}}, 1j])
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


def test_a_digest_names_its_algorithm_and_its_value() -> None:
    assert digest({}) == digest_bytes(b"{}")
    assert digest({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert digest({"a": 1}) != digest({"a": 2})
