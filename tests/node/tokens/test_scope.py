"""Scopes: what they cover, and that narrowing narrows."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import BusError
from handrail.node.tokens.patterns import is_inside, matches, pattern, shared_patterns
from handrail.node.tokens.scope import Scope

LETTERS = "ab.*"
PATTERNS = st.text(alphabet=LETTERS, min_size=1, max_size=6).map(lambda name: f"{name}@*")
WORDS = ["".join(each) + "@1.0" for length in range(1, 6) for each in product("ab.", repeat=length)]


@given(PATTERNS)
def test_a_pattern_matches_what_the_executor_would_match(text: str) -> None:
    assert [word for word in WORDS if matches(word, [text])] == [word for word in WORDS if fnmatchcase(word, text)]


@given(PATTERNS, PATTERNS)
def test_a_pattern_that_is_inside_another_matches_nothing_more(inner: str, outer: str) -> None:
    if is_inside(inner, [outer]):
        assert not [word for word in WORDS if matches(word, [inner]) and not matches(word, [outer])]


@given(st.lists(PATTERNS, max_size=3), st.lists(PATTERNS, max_size=3))
def test_what_two_share_both_allow(some: list[str], others: list[str]) -> None:
    both = shared_patterns(some, others)

    assert not [w for w in WORDS if matches(w, both) and not (matches(w, some) and matches(w, others))]


@pytest.mark.parametrize(
    ("inner", "outer", "inside"),
    [
        ("rag.query@1.0", "rag.*@1.*", True),
        ("rag.*@1.0", "rag.*@1.*", True),
        ("*@*", "*@*", True),
        ("*@*", "rag.*@*", False),
        ("rag.*@*", "rag.*@1.*", False),
        ("ragged.x@1.0", "rag.*@*", False),
        ("a*b@1.0", "*b@1.*", True),
        ("*b@1.0", "a*b@1.0", False),
    ],
)
def test_these_are_inside_each_other_and_those_are_not(inner: str, outer: str, inside: bool) -> None:
    assert is_inside(inner, [outer]) is inside


@pytest.mark.parametrize(
    "text",
    ["", "@", "rag.query@", "Rag.query@1.0", "rag.query@1", "rag?@1.0", "[a]@1.0", "a b@1.0", "a@1.0@2.0", "x" * 101],
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(BusError, match="not a pattern"):
        pattern(text)


def test_a_pattern_without_a_version_is_for_all_of_them() -> None:
    assert (pattern("rag.*"), pattern("*"), pattern("rag.query@1.0")) == ("rag.*@*", "*@*", "rag.query@1.0")


BOOKS = Scope.of(["rag.*@1.*"], {"corpus": ["a", "b", 1]})


@pytest.mark.parametrize(
    ("body", "covered"),
    [
        ({"params": {"corpus": "a"}}, True),
        ({"input": {"corpus": "b"}}, True),
        ({"params": {"corpus": "a"}, "input": {"corpus": "b"}}, True),
        ({"params": {"corpus": 1}}, True),
        ({"params": {"corpus": "c"}}, False),
        ({"params": {"corpus": True}}, False),
        ({"params": {"corpus": ["a"]}}, False),
        ({"params": {"corpus": {"a": "a"}}}, False),
        ({"params": {"corpus": None}}, False),
        ({"params": {"corpus": "a"}, "input": {"corpus": "c"}}, False),
        ({"params": {"corpus": "c"}, "input": {"corpus": "a"}}, False),
        ({"params": {}}, False),
        ({}, False),
        ({"corpus": "a"}, False),
    ],
)
def test_a_constrained_value_must_be_said_and_allowed_wherever_it_is_said(body: dict[str, Any], covered: bool) -> None:
    assert BOOKS.covers("rag.query", (1, 0), body) is covered


def test_a_value_is_looked_for_where_the_capability_looks_for_it() -> None:
    schema = {"properties": {"params": {"properties": {"corpus": {}}}, "input": {"type": "object"}}}

    assert BOOKS.covers("rag.query", (1, 0), {"params": {"corpus": "a"}}, schema)
    assert not BOOKS.covers("rag.query", (1, 0), {"params": {}, "input": {"corpus": "a"}}, schema)


def test_a_constraint_of_some_capabilities_leaves_the_others_alone() -> None:
    scope = Scope.of(["rag.*@1.*", "llm.chat@2.0"], {"rag.*:corpus": ["a"]})

    assert scope.covers("llm.chat", (2, 0), {"input": {}})
    assert not scope.covers("rag.query", (1, 0), {"input": {}})
    assert not scope.covers("llm.chat", (1, 0), {"input": {}})


@pytest.mark.parametrize(
    "wanted",
    [
        {"capabilities": ["rag.*@*"]},
        {"capabilities": ["*"]},
        {"params_constraints": {"corpus": ["a", "c"]}},
        {"rate_limit_per_minute": 61},
        {"max_calls_total": 101},
    ],
)
def test_a_scope_is_never_made_wider(wanted: dict[str, Any]) -> None:
    scope = Scope.of(["rag.*@1.*"], {"corpus": ["a", "b"]}, 60, 100)

    with pytest.raises(BusError) as caught:
        scope.narrowed(**wanted)

    assert caught.value.code == "token_scope_insufficient"


def test_a_part_of_a_scope_keeps_what_is_not_said() -> None:
    scope = Scope.of(["rag.*@1.*"], {"corpus": ["a", "b"]}, 60, 100)

    part = scope.narrowed(["rag.query@1.0"], {"corpus": ["a"], "k": [5]}, max_calls_total=3)

    assert part == Scope.of(["rag.query@1.0"], {"corpus": ["a"], "k": [5]}, 60, 3)
    assert scope.narrowed() == scope


def test_a_constraint_that_holds_in_fewer_places_is_no_narrower() -> None:
    everywhere, somewhere = Scope.of(["*"], {"corpus": ["a"]}), Scope.of(["*"], {"rag.*:corpus": ["a"]})

    assert everywhere.is_within(somewhere)
    assert not somewhere.is_within(everywhere)


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        {},
        {"capabilities": "rag.query@1.0"},
        {"capabilities": []},
        {"capabilities": [7]},
        {"capabilities": ["*"] * 2 + ["x.y"] * 2, "others": 1},
        {"capabilities": [f"a.b{n}@1.0" for n in range(65)]},
        {"capabilities": ["*"], "params_constraints": {"a": "b"}},
        {"capabilities": ["*"], "params_constraints": {"a": []}},
        {"capabilities": ["*"], "params_constraints": {"": ["b"]}},
        {"capabilities": ["*"], "params_constraints": {"X!:a": ["b"]}},
        {"capabilities": ["*"], "rate_limit_per_minute": 0},
        {"capabilities": ["*"], "rate_limit_per_minute": True},
        {"capabilities": ["*"], "max_calls_total": 1.5},
    ],
)
def test_what_is_no_scope_is_refused(said: Any) -> None:
    with pytest.raises(BusError) as caught:
        Scope.from_dict(said)

    assert caught.value.code == "bad_request"


def test_a_scope_is_written_as_it_is_read() -> None:
    scope = Scope.of(["rag.query@1.0"], {"corpus": ["a", 1, None]}, 60, 5)

    assert Scope.from_dict(scope.to_dict()) == scope
