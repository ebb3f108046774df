"""Kill the process at any moment: nothing with a side effect runs twice, and what was known stays known.

HANDRAIL_KILLS is how many processes are killed, and HANDRAIL_KILLS_SEED when.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from handrail.journal.auditing import audit
from tests.crash.killed_calls import CALLS

ROOT = Path(__file__).parent.parent.parent
COUNT = int(os.environ.get("HANDRAIL_KILLS", "80"))
SEED = os.environ.get("HANDRAIL_KILLS_SEED", "20261115")
SECONDS = 60 + 3 * COUNT
KINDS = {call.id: call.name for call in CALLS}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS)]


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What so many processes did before they were killed, and what those that resumed their runs did."""
    folder = tmp_path_factory.mktemp("lives")
    command = [sys.executable, "-m", "tests.crash.killed_calls", str(folder), SEED, str(COUNT)]
    out = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=SECONDS)
    return [json.loads(line) for line in out.stdout.splitlines()]


def test_the_processes_really_were_killed_and_every_run_was_resumed(lives: list[dict[str, Any]]) -> None:
    assert len(lives) == COUNT
    assert sum(life["killed"] for life in lives) >= 0.75 * COUNT
    assert all(life["resumed"] for life in lives)


def test_no_side_effect_happens_twice(lives: list[dict[str, Any]]) -> None:
    for life in lives:
        counts = Counter(id for kind, id, _ in life["effects"] if kind in ("pay", "settle"))
        assert {id: count for id, count in counts.items() if count > 1} == {}


def test_an_idempotent_effect_that_runs_again_has_the_key_it_had(lives: list[dict[str, Any]]) -> None:
    again = 0
    for life in lives:
        keys: dict[str, set[str]] = {}
        for kind, id, key in life["effects"]:
            if kind == "put":
                keys.setdefault(id, set()).add(key)
                again += 1
        assert all(len(each) == 1 for each in keys.values())
        again -= len(keys)
    assert again > 0, "no life died between an idempotent effect and its answer, so this test saw nothing"


def test_a_result_that_was_given_to_the_caller_is_never_lost_or_changed(lives: list[dict[str, Any]]) -> None:
    for life in lives:
        assert {id: life["results"][id][0] for id in life["crashed"]["acknowledged"]} == life["crashed"]["acknowledged"]


def test_every_call_ends_with_exactly_one_honest_answer(lives: list[dict[str, Any]]) -> None:
    for life in lives:
        done = {id for _, id, _ in life["effects"]}
        assert set(life["results"]) == set(KINDS)
        for id, (outcome, content) in life["results"].items():
            assert outcome in ("ok", "in_doubt")
            assert outcome == "in_doubt" or (content == f"{KINDS[id]} {id}" and id in done)


def test_in_doubt_is_exactly_what_was_begun_and_not_answered_and_cannot_be_looked_up(
    lives: list[dict[str, Any]],
) -> None:
    doubtful = 0
    for life in lives:
        expected = {id for id in life["crashed"]["open"] if KINDS[id] == "pay"}
        found = {id for id, (outcome, _) in life["results"].items() if outcome == "in_doubt"}
        assert found == expected
        doubtful += len(found)
    assert doubtful > 0, "no life died inside a payment, so this test saw nothing"


def test_every_journal_verifies(lives: list[dict[str, Any]]) -> None:
    assert [report.problems for report in (audit(Path(life["journal"])) for life in lives) if not report.ok] == []
