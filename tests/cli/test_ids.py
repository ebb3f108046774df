"""Ids can be cut short, and no cut ever means another one."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from handrail.cli.ids import resolve_id, shorten_ids
from handrail.core.errors import UsageError

IDS = st.lists(st.text("ab_.", min_size=1, max_size=20), min_size=1, max_size=8)


def test_a_beginning_that_only_one_id_has_is_enough() -> None:
    assert resolve_id("run_a", ["run_abc", "run_xyz"], "run") == "run_abc"


def test_a_whole_id_is_meant_even_if_others_begin_with_it() -> None:
    assert resolve_id("run_a", ["run_a", "run_ab"], "run") == "run_a"


def test_a_beginning_of_several_lists_them() -> None:
    with pytest.raises(UsageError, match="'run_ab', 'run_ac'"):
        resolve_id("run_a", ["run_ab", "run_ac", "run_b"], "run")


def test_a_beginning_means_the_run_and_not_those_that_it_began() -> None:
    ids = ["run_abc", "run_abc.call_1.0", "run_abc.call_1.1", "run_x.1", "run_x.2"]

    assert resolve_id("run_a", ids, "run") == "run_abc"
    assert resolve_id("run_abc.call_1.1", ids, "run") == "run_abc.call_1.1"
    with pytest.raises(UsageError, match=r"'run_x\.1', 'run_x\.2'"):
        resolve_id("run_x", ids, "run")


def test_an_id_that_is_not_there_lists_the_last_ones() -> None:
    with pytest.raises(UsageError, match="'run_b', 'run_a'"):
        resolve_id("call", ["run_a", "run_b"], "run")


def test_no_text_at_all_means_nothing() -> None:
    with pytest.raises(UsageError):
        resolve_id("", ["run_a"], "run")


@given(IDS)
def test_every_id_is_found_by_what_is_shown_of_it(ids: list[str]) -> None:
    assert {each: resolve_id(shown, ids, "run") for each, shown in shorten_ids(ids).items()} == {
        each: each for each in ids
    }
