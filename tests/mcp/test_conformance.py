"""The official suite, against our fixture server and with our fixture client.

To be quick, the scenarios of a revision share a process here, and its clients are forks of one; `make
conformance` gives each its own.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from conformance.report import BEGIN, END, PAGE, line, table, write
from conformance.run import fixture_server
from conformance.suite import HOLLOW, SETS, Role, Scenario, Score, Set, run, run_together, scenarios
from conformance.warm import warm_client

ROLES: tuple[Role, ...] = ("server", "client")
REFUSED = {
    "2025-11-25": {"auth/scope-retry-limit"},
    "2026-07-28": {
        "auth/iss-normalized",
        "auth/iss-supported-missing",
        "auth/iss-unexpected",
        "auth/iss-wrong-issuer",
        "auth/metadata-issuer-mismatch",
        "auth/resource-mismatch",
        "auth/scope-retry-limit",
    },
}
"""The scenarios whose server does what a client must refuse: ours ends with an error. In all others it ends well."""


def shortcomings(scores: list[Score]) -> list[str]:
    return [line(score) for score in scores if not (score.ok or score.hollow)]


@pytest.mark.slow
@pytest.mark.requirement("converser.mcp-server")
@pytest.mark.parametrize(("revision", "count"), [("2025-11-25", 30), ("2026-07-28", 37 + 10)])
def test_the_server_passes_every_scenario(revision: Set, count: int) -> None:
    with fixture_server() as url:
        scores = run_together("server", revision, url)
    assert len(scores) == count
    assert shortcomings(scores) == []
    assert {score.scenario.name for score in scores if score.hollow} == (HOLLOW if revision == "2026-07-28" else set())


@pytest.mark.slow
@pytest.mark.requirement("converser.mcp-client")
@pytest.mark.parametrize(("revision", "count"), [("2025-11-25", 18), ("2026-07-28", 32)])
def test_the_client_passes_every_scenario(revision: Set, count: int) -> None:
    with warm_client() as client:
        scores = run_together("client", revision, client.command)
        ended = client.ended()
    assert len(scores) == count
    assert shortcomings(scores) == []
    assert {score.scenario.name for score in scores if ended[score.scenario.name]} == REFUSED[revision]


def test_every_scenario_that_a_revision_asks_for_is_known() -> None:
    counted = {(role, group): len(scenarios(role, group)) for role in ROLES for group in SETS}
    assert counted == {
        ("server", "2025-11-25"): 30,
        ("server", "2026-07-28"): 37,
        ("server", "tasks"): 10,
        ("client", "2025-11-25"): 18,
        ("client", "2026-07-28"): 32,
        ("client", "tasks"): 0,
    }


def test_a_client_that_never_comes_fails_whatever_the_suite_says() -> None:
    absent = run(Scenario("client", "2026-07-28", "http-standard-headers"), client="true")
    assert (absent.code, absent.passed, absent.failed) == (0, 0, 0)  # which the suite calls a pass
    assert not absent.ok
    assert not absent.hollow


def test_a_client_that_ends_badly_fails_whatever_was_checked(tmp_path: Path) -> None:
    program = tmp_path / "bad_end.py"
    program.write_text(
        "import asyncio, sys\nfrom conformance.client import main\nasyncio.run(main(sys.argv[1]))\nsys.exit(3)"
    )
    score = run(Scenario("client", "2025-11-25", "initialize"), client=f"{sys.executable} {program}")
    assert (score.passed, score.failed) == (1, 0)
    assert not score.ok


def test_the_page_has_a_place_for_the_figures_and_keeps_the_rest(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    scenario = Scenario("server", "tasks", "tasks-lifecycle")
    score = Score(scenario=scenario, passed=9, failed=0, code=0, seconds=1.0, why="")
    empty = Score(
        scenario=Scenario("server", "tasks", "tasks-status-notifications"),
        passed=0,
        failed=0,
        code=0,
        seconds=1.0,
        why="",
    )
    write([score, empty], date(2026, 11, 15), page)
    written = page.read_text(encoding="utf-8")
    assert "2026-11-15" in written
    assert "| server | 1/2; 1 checks nothing | 9 |" in table([score, empty])
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    assert written.startswith(before)
    assert written.endswith(rest.split(END)[1])
    write([score, empty], date(2026, 11, 15), page)
    assert page.read_text(encoding="utf-8") == written


def test_only_the_whole_suite_is_written_down() -> None:
    asked = [sys.executable, "-m", "conformance", "server", "--write"]
    done = subprocess.run(asked, cwd=PAGE.parent.parent, capture_output=True, text=True)
    assert done.returncode == 2
    assert "whole suite" in done.stderr
