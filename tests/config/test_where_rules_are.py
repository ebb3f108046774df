"""Standing rules in the user's file and in the state of replicas: what holds of one holds of the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from handrail.config.approvals import Approvals
from handrail.config.standing_rules import FileRules, SharedRules, StandingRules
from handrail.core.errors import UsageError
from handrail.execute.rules import Rule
from handrail.state import StateDatabase

OLD, NEW = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
Opened = Callable[[], StandingRules]


@pytest.fixture(params=["file", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Opens the same rules again, as another process would."""
    with ExitStack() as stack:
        if request.param == "file":
            yield lambda: FileRules(Approvals(tmp_path / "state"), tmp_path / "handrail.toml")
            return
        url = request.getfixturevalue("postgres_url")
        yield lambda: SharedRules(stack.enter_context(closing(StateDatabase.open(url, connections=2))))


def test_the_newest_is_asked_first_and_takes_the_place_of_one_for_the_same_calls(opened: Opened) -> None:
    rules = opened()
    for rule in (f"add@{OLD} a=1", f"pay@{OLD}", f"add@{OLD}", f"add@{NEW} a=1", f"add@{NEW}  a=1"):
        rules.add(f"allow {rule}")

    assert rules.written() == opened().written() == (f"allow add@{NEW} a=1", f"allow add@{OLD}", f"allow pay@{OLD}")


@pytest.mark.parametrize("rule", ["allow add", "perhaps add", "", "allow add@sha256:zz", "deny add@" + OLD])
def test_what_is_no_rule_or_would_hold_for_whatever_a_tool_becomes_is_refused(opened: Opened, rule: str) -> None:
    rules = opened()
    with pytest.raises(UsageError, match="rule"):
        rules.add(rule)

    assert rules.written() == ()


def test_what_another_sets_and_takes_back_holds_from_the_next_look_on(opened: Opened) -> None:
    here, there = opened(), opened()
    seen = [here.now()]
    there.add(f"allow add@{OLD}")
    seen.append(here.now())
    taken = [here.remove("allow add"), here.remove(f"allow add@{OLD}"), there.remove(f"allow add@{OLD}")]
    seen.append(there.now())

    assert [list(map(str, each)) for each in seen] == [[], [f"allow add@{OLD}"], []]
    assert taken == [False, True, False]


def test_a_rule_is_kept_letter_by_letter_however_long_it_is(opened: Opened) -> None:
    rules = opened()
    wide = "it's 100 % %s {} ☕ \\ " + "long " * 2_000
    rule = str(Rule("allow", "write", (("text", wide),), OLD))
    rules.add(rule)

    assert rules.written() == (rule,)
    assert rules.remove(rule)


@pytest.mark.parametrize("letter", ["\0", "\ud800"])
def test_a_rule_with_letters_that_not_every_store_keeps_is_refused(opened: Opened, letter: str) -> None:
    rules = opened()
    rules.add(f"allow add@{OLD}")
    with pytest.raises(UsageError, match="no text can have"):
        rules.add(f"allow add@{OLD} a=x{letter}")

    assert rules.written() == (f"allow add@{OLD}",)
    assert not rules.remove(f"allow add@{OLD} b=x{letter}")


def test_two_who_set_rules_at_once_lose_none_of_each_other(opened: Opened) -> None:
    def add_some(which: int) -> None:
        own = opened()
        for number in range(8):
            own.add(f"allow tool_{which}_{number}@{OLD}")

    with ThreadPoolExecutor(3) as workers:
        list(workers.map(add_some, range(3)))

    assert len(opened().written()) == 24


def test_a_state_that_is_gone_allows_nothing_and_says_so(postgres_url: str, caplog: pytest.LogCaptureFixture) -> None:
    database = StateDatabase.open(postgres_url, connections=2)
    rules = SharedRules(database)
    rules.add(f"allow add@{OLD}")
    held = rules.now()
    database.execute_now("DROP TABLE standing_rule")

    with caplog.at_level(logging.WARNING):
        assert (len(held), rules.now()) == (1, ())
    assert [record.getMessage()[:27] for record in caplog.records] == ["standing rules do not hold:"]
    database.close()
