"""A misspelt name finds the one that is meant, also among thousands."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings, strategies as st

from handrail.tools.near_names import _COMPARED, NearNames
from tests.examples import examples

KINDS = ("read", "write", "list", "search", "delete", "move", "describe", "publish", "archive", "restore")
MANY = [f"{kind}_document_{at}" for at in range(1000) for kind in KINDS]
NEAR = NearNames(MANY)


@given(st.sampled_from(MANY), st.integers(0, 30), st.sampled_from(["drop", "swap", "add", "other"]))
@settings(max_examples=examples(60), deadline=None)
def test_one_wrong_letter_finds_the_name_that_is_meant(name: str, at: int, how: str) -> None:
    at %= len(name) - 1
    wrong = {
        "drop": name[:at] + name[at + 1 :],
        "swap": name[:at] + name[at + 1] + name[at] + name[at + 2 :],
        "add": name[:at] + "x" + name[at:],
        "other": name[:at] + "x" + name[at + 1 :],
    }[how]
    assert wrong == name or NEAR.find(wrong)
    best = max(difflib.SequenceMatcher(None, wrong, each).ratio() for each in NEAR.find(wrong))
    assert best >= difflib.SequenceMatcher(None, wrong, name).ratio()


@pytest.mark.parametrize("name", ["", "x", "\n\n\n", "zzzzzzzzz", "a" * 1_000_000])
def test_a_name_like_no_other_finds_none(name: str) -> None:
    assert NEAR.find(name) == []


def test_few_names_of_many_are_compared() -> None:
    assert len(NEAR._candidates("reed_document_471")) == _COMPARED


def test_among_few_names_all_are_compared() -> None:
    assert NearNames(["ab", "cd"]).find("abc") == ["ab"]
