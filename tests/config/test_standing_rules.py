"""Standing rules: a person's own, per configuration file, for tools as they were, and good at once everywhere."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from handrail.config.approvals import Approvals
from handrail.config.standing_rules import FileRules
from handrail.core.errors import UsageError
from handrail.mcp.values import StdioEndpoint

OLD, NEW = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
SERVER = StdioEndpoint(command="uvx")


@pytest.fixture
def approvals(tmp_path: Path) -> Approvals:
    return Approvals(tmp_path / "state")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "project" / "handrail.toml"


def test_a_rule_holds_for_the_configuration_it_was_set_in_and_no_other(approvals: Approvals, config: Path) -> None:
    approvals.add_rule(config, f"allow  io:write@{OLD}   path=docs/a.md")

    assert approvals.rules(config) == (f"allow io:write@{OLD} path=docs/a.md",)
    assert approvals.rules(config.parent.parent / "handrail.toml") == ()
    assert approvals.rules(None) == ()


def test_without_a_configuration_a_rule_is_for_the_folder(
    approvals: Approvals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    approvals.add_rule(None, f"allow add@{OLD}")
    here = approvals.rules(None)
    monkeypatch.chdir(tmp_path / "state")

    assert (here, approvals.rules(None)) == ((f"allow add@{OLD}",), ())


def test_the_newest_is_first_and_replaces_one_for_the_same_calls(approvals: Approvals, config: Path) -> None:
    for rule in (f"allow add@{OLD} a=1", f"allow add@{OLD}", f"allow add@{NEW} a=1", f"allow add@{NEW} a=1"):
        approvals.add_rule(config, rule)

    assert approvals.rules(config) == (f"allow add@{NEW} a=1", f"allow add@{OLD}")


@pytest.mark.parametrize("rule", ["allow add", "allow *", "perhaps add", "", "allow add@sha256:zz", "deny add@" + OLD])
def test_what_is_no_rule_or_would_hold_for_whatever_a_tool_becomes_is_refused(
    approvals: Approvals, config: Path, rule: str
) -> None:
    with pytest.raises(UsageError):
        approvals.add_rule(config, rule)

    assert approvals.rules(config) == ()
    assert not approvals.path.exists()


def test_a_rule_is_forgotten_as_it_is_written(approvals: Approvals, config: Path) -> None:
    approvals.add_rule(config, f"allow add@{OLD}")

    assert not approvals.remove_rule(config, "allow add")
    assert approvals.remove_rule(config, f"allow add@{OLD}")
    assert not approvals.remove_rule(config, f"allow add@{OLD}")
    assert approvals.rules(config) == ()


def test_rules_and_approved_servers_leave_each_other_alone(approvals: Approvals, config: Path) -> None:
    approvals.approve(config, "time", SERVER, by="ada")
    approvals.add_rule(config, f"allow add@{OLD}")
    approvals.approve(config, "mail", SERVER, by="ada")

    assert approvals.rules(config) == (f"allow add@{OLD}",)
    assert approvals.revoke(config, "time") and approvals.of(config, "mail") is not None
    assert approvals.rules(config) == (f"allow add@{OLD}",)


def test_a_file_of_before_there_were_rules_is_read_and_stays_as_it_was(approvals: Approvals, config: Path) -> None:
    approvals.approve(config, "time", SERVER, by="ada")
    before = json.loads(approvals.path.read_bytes())

    assert approvals.rules(config) == ()
    assert set(before) == {"servers"}


def test_whoever_looks_sees_what_another_process_wrote(approvals: Approvals, config: Path) -> None:
    standing = FileRules(approvals, config)
    seen = [standing.now()]
    for write in (Approvals.add_rule, Approvals.remove_rule):
        write(Approvals(approvals.path.parent), config, f"allow add@{OLD}")
        seen.append(standing.now())

    assert [list(map(str, rules)) for rules in seen] == [[], [f"allow add@{OLD}"], []]


def test_a_file_that_cannot_be_read_allows_nothing_and_says_so(
    approvals: Approvals, config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    approvals.add_rule(config, f"allow add@{OLD}")
    standing = FileRules(approvals, config)
    before = standing.now()
    approvals.path.write_text("{", encoding="utf-8")

    with caplog.at_level(logging.WARNING):
        assert (len(before), standing.now(), standing.now()) == (1, (), ())
    assert [record.getMessage()[:30] for record in caplog.records] == ["standing rules do not hold: th"]


def test_two_writers_lose_no_rule_of_each_other(approvals: Approvals, config: Path) -> None:
    def add_some(which: int) -> None:
        own = Approvals(approvals.path.parent)
        for number in range(10):
            own.add_rule(config, f"allow tool_{which}_{number}@{OLD}")

    with ThreadPoolExecutor(2) as workers:
        list(workers.map(add_some, range(2)))

    assert len(approvals.rules(config)) == 20
