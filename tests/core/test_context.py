"""Rights only narrow on the way down."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from handrail.core.context import LOCAL, Context, Principal

names = st.sampled_from(["read_file", "io:read_file", "io:write_file", "rag.query@1.0", "web:fetch"])
scopes = st.none() | st.lists(
    st.sampled_from(["*", "io:*", "io:read_*", "read_file", "rag.query@1.*", "web:fetch", ""]), max_size=3
).map(tuple)


def test_nobody_who_says_nothing_is_held_back() -> None:
    assert Context().allows("io:read_file")
    assert Context().principal == LOCAL


def test_no_scopes_at_all_allow_nothing() -> None:
    assert not Context(scopes=()).allows("io:read_file")
    assert not Context(principal=Principal("ada", ())).allows("io:read_file")


def test_a_scope_may_name_a_tool_by_any_of_its_names() -> None:
    context = Context(scopes=("rag.query@1.0",))

    assert context.allows("search_corpus", "hearth:search_corpus", "rag.query@1.0")
    assert not context.allows("search_corpus", "hearth:search_corpus", "rag.query@2.0")


@pytest.mark.parametrize(
    ("scope", "name", "covered"),
    [
        ("io:read_*", "io:read_file", True),
        ("io:read_*", "io:write_file", False),
        ("io:read_*", "xio:read_file", False),
        ("IO:read_file", "io:read_file", False),
        ("io", "io:read_file", False),
        ("", "io:read_file", False),
        ("*", "io:read_file", True),
    ],
)
def test_a_scope_covers_what_its_pattern_matches(scope: str, name: str, covered: bool) -> None:
    assert Context(scopes=(scope,)).allows(name) is covered


def test_the_principal_and_the_context_must_both_allow() -> None:
    context = Context(principal=Principal("ada", ("io:*",)), scopes=("*:read_file",))

    assert context.allows("io:read_file")
    assert not context.allows("io:write_file")
    assert not context.allows("web:read_file")


@given(scopes, scopes, st.lists(scopes, max_size=4), names)
def test_a_nested_call_never_has_a_right_that_its_caller_lacks(
    of_principal: tuple[str, ...] | None,
    of_context: tuple[str, ...] | None,
    chain: list[tuple[str, ...] | None],
    name: str,
) -> None:
    context = Context(principal=Principal("ada", of_principal), scopes=of_context)
    for narrower in chain:
        nested = context.nested(narrower)
        assert context.allows(name) or not nested.allows(name)
        if narrower is None:
            assert nested.allows(name) == context.allows(name)
        context = nested
    assert context.depth == len(chain)


def test_a_nested_call_keeps_who_calls_and_knows_what_is_held() -> None:
    context = Context(run="r1", token="t", model="m", deadline=5.0, auxdata={"a": 1}, namespace={"b": 2})

    nested = context.nested(("io:*",), "notes.txt").nested(None).nested(None, "other.txt")

    assert (nested.run, nested.token, nested.model, nested.deadline) == ("r1", "t", "m", 5.0)
    assert (nested.auxdata, nested.namespace) == ({"a": 1}, {"b": 2})
    assert nested.held == ("notes.txt", "other.txt")
    assert nested.depth == 3


def test_a_context_cannot_be_changed() -> None:
    context, field = Context(), "scopes"
    with pytest.raises(AttributeError):
        setattr(context, field, None)
