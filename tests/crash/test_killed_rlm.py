"""An RLM whose process or sandbox is killed at fifty points: it goes on, nothing is done twice, nobody is lied to.

HANDRAIL_KILLS is how many points are tried, and HANDRAIL_KILLS_SEED which.
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

from tests.crash.killed_rlm import ANSWER, KINDS

ROOT = Path(__file__).parent.parent.parent
COUNT = int(os.environ.get("HANDRAIL_KILLS", "50"))
SEED = os.environ.get("HANDRAIL_KILLS_SEED", "20261115")
IN_DOUBT = "whether it took effect is not known"

pytestmark = pytest.mark.slow

Point = dict[str, Any]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[Point]:
    folder = tmp_path_factory.mktemp("explorers")
    command = [sys.executable, "-m", "tests.crash.killed_rlm", str(folder), SEED, str(COUNT)]
    out = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=60 + 10 * COUNT)
    return [json.loads(line) for line in out.stdout.splitlines()]


@pytest.fixture(scope="module")
def points(told: list[Point]) -> list[Point]:
    """All but the run that nobody killed."""
    return told[1:]


def said(point: Point) -> list[Any]:
    found: list[Any] = json.loads(point["lives"][-1]["response"])
    return found


def test_the_run_that_nobody_killed_does_everything(told: list[Point]) -> None:
    assert said(told[0]) == ANSWER
    assert [words[:2] for words in told[0]["effects"]] == [
        ["pay", "1"],
        ["put", "2"],
        ["settle", "3"],
        ["pay", "4"],
        ["pay", "5"],
    ]


def test_hosts_and_sandboxes_really_were_killed(points: list[Point]) -> None:
    assert len(points) == COUNT
    hosts = [point for point in points if point["lives"][0]["died"]]
    sandboxes = [point for point in points if any(life.get("killed") for life in point["lives"])]
    assert len(hosts) >= COUNT // 2
    assert len(sandboxes) >= COUNT // 4
    if COUNT >= 50:
        assert {point["kind"] for point in hosts} == {point["kind"] for point in sandboxes} == set(KINDS)
        assert any(len(point["lives"]) == 3 for point in points), "nobody who took a run up was killed"


def test_every_run_comes_to_an_end_of_its_own(points: list[Point]) -> None:
    for point in points:
        assert point["lives"][-1]["status"] == 0, point["plan"]
        assert point["lives"][-1]["partial"] is False, point["plan"]


def test_nothing_is_done_twice(points: list[Point]) -> None:
    for point in points:
        counts = Counter((kind, n) for kind, n, _ in point["effects"] if kind != "put")
        assert {which: count for which, count in counts.items() if count > 1} == {}, point["plan"]
        assert len({key for kind, _, key in point["effects"] if kind == "put"}) == 1, point["plan"]


def test_the_answer_is_right_but_for_what_nobody_can_know(points: list[Point]) -> None:
    doubtful = 0
    for point in points:
        done = {f"{kind} {n}" for kind, n, _ in point["effects"]}
        for found, right in zip(said(point), ANSWER, strict=True):
            if found == right:
                acts = [word for word in str(right).split(" and ") if word[:3] in ("pay", "put", "set")]
                assert set(acts) <= done, point["plan"]
                continue
            assert str(right).startswith("pay") and IN_DOUBT in found, (point["plan"], found)
            assert point["lives"][0]["died"], point["plan"]
            doubtful += 1
    assert COUNT < 50 or doubtful > 0, "no process died inside a payment, so this test saw nothing"


def test_no_question_that_was_answered_is_asked_again(points: list[Point]) -> None:
    assert [(point["plan"], life) for point in points for life in point["lives"] if life["asked again"]] == []


def test_with_dumps_no_code_is_run_again(points: list[Point]) -> None:
    """Monty's variables come from the dumps of the process that died."""
    taken_up = 0
    for point in points:
        sandbox_died = any(victim == "sandbox" for _, victim in point["plan"]["deaths"])
        if point["kind"] != "monty" or sandbox_died:
            continue
        for life in point["lives"][1:]:
            assert set(life.get("rebuilt", [])) <= {0}, point["plan"]
            taken_up += len(life.get("rebuilt", []))
    assert COUNT < 50 or taken_up > 5


def test_nothing_is_left_running_or_lying_about_and_every_journal_verifies(points: list[Point]) -> None:
    for point in points:
        assert [life["left"] for life in point["lives"] if life["left"]] == [], point["plan"]
        assert point["dumps"] == [], point["plan"]
        assert point["problems"] == [], point["plan"]
