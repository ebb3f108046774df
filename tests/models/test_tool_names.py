"""Names fit the wire, differ where ours differ, and come back."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from handrail.models.tool_names import (
    ANTHROPIC_NAMES,
    BEDROCK_NAMES,
    GEMINI_NAMES,
    OLLAMA_NAMES,
    OPENAI_NAMES,
    NameMap,
    NameRule,
)

RULES = [OPENAI_NAMES, ANTHROPIC_NAMES, GEMINI_NAMES, BEDROCK_NAMES, OLLAMA_NAMES, NameRule("[a-z0-9_]+", 12)]
_NAMES = st.lists(
    st.text(st.sampled_from("ab1_-.:/ é"), max_size=14) | st.text(max_size=200) | st.sampled_from(["a" * 64, "a" * 65])
)


def test_a_name_that_fits_stays_and_one_that_does_not_stays_readable() -> None:
    names = NameMap.of(["add", "io:read_file", "3d.view", "naïve"], OPENAI_NAMES)
    assert names.wire == {"add": "add", "io:read_file": "io_read_file", "3d.view": "3d_view", "naïve": "na_ve"}
    assert NameMap.of(["3d.view"], GEMINI_NAMES).to_wire("3d.view") == "_3d.view"


def test_names_that_would_become_the_same_are_marked_with_a_hash() -> None:
    names = NameMap.of(["a_b", "a:b", "a.b"], OPENAI_NAMES)
    assert names.to_wire("a_b") == "a_b"
    assert names.to_wire("a:b") == "a_b_6783a31e"
    assert len({*map(names.to_wire, ["a_b", "a:b", "a.b"])}) == 3


def test_long_names_that_begin_the_same_stay_different() -> None:
    long = ["x" * 80 + tail for tail in ("a", "b")]
    names = NameMap.of(long, OPENAI_NAMES)
    first, second = map(names.to_wire, long)
    assert first != second
    assert len(first) == len(second) == 64


def test_a_name_that_nobody_offered_comes_back_unchanged() -> None:
    assert NameMap.of(["io:read"], OPENAI_NAMES).from_wire("io_write") == "io_write"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.pattern} {rule.longest}")
@given(names=_NAMES, gone=st.text(max_size=80) | st.sampled_from(["a", "a_b", "a:b"]))
def test_any_names_fit_differ_and_come_back_whatever_their_order(rule: NameRule, names: list[str], gone: str) -> None:
    mapped = NameMap.of(names, rule)
    wire = [mapped.to_wire(name) for name in names]
    assert all(rule.fits(name) for name in wire)
    assert [mapped.from_wire(name) for name in wire] == names
    assert mapped == NameMap.of(reversed(names), rule)
    if gone not in names:
        assert rule.fits(mapped.to_wire(gone))
        assert mapped.to_wire(gone) not in wire
