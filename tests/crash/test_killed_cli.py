"""`handrail ask` killed at many points, and `handrail resume` after it: it ends as if nothing had been.

HANDRAIL_KILLS is how many points are tried, and HANDRAIL_KILLS_SEED which, where there are more.
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

from tests.crash.planned_service import ANSWER, STEPS

ROOT = Path(__file__).parent.parent.parent
COUNT = int(os.environ.get("HANDRAIL_KILLS", "60"))
SEED = os.environ.get("HANDRAIL_KILLS_SEED", "20261115")

Life = dict[str, Any]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[Life]:
    folder = tmp_path_factory.mktemp("kills")
    command = [sys.executable, "-m", "tests.crash.killed_cli", str(folder), SEED, str(COUNT)]
    out = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=1200)
    return [json.loads(line) for line in out.stdout.splitlines()]


@pytest.fixture(scope="module")
def whole(told: list[Life]) -> Life:
    """The run that nobody killed."""
    return told[0]


@pytest.fixture(scope="module")
def lives(told: list[Life]) -> list[Life]:
    return told[1:]


def test_the_run_that_nobody_killed_does_everything(whole: Life) -> None:
    assert (whole["killed"], whole["status"], whole["verified"]) == (False, 0, True)
    assert whole["answer"].endswith(f"{ANSWER}\n")
    assert [call[:2] for call in good_calls(whole)] == [
        (name, arguments) for step in STEPS for name, arguments, _ in step
    ]


def test_the_others_really_were_killed_in_every_phase_of_a_run(lives: list[Life]) -> None:
    assert len(lives) == COUNT
    assert sum(life["killed"] for life in lives) >= 0.9 * COUNT
    if COUNT < 60:
        return
    last = Counter(life["left"][-1] if life["left"] else "nothing" for life in lives)
    seen = {"nothing", "conversation.changed", "tools.offered", "reply.given", "confirmation.requested"}
    assert seen | {"confirmation.answered", "call.intended", "call.settled"} <= set(last), last
    looked = Counter(word for life in lives for word in life["looked"])
    assert looked["ran"] >= 3
    assert looked["not run"] >= 3


def test_every_run_was_taken_up_and_ended_with_the_answer(lives: list[Life]) -> None:
    assert [(life["plan"], life["errors"]) for life in lives if life["status"]] == []
    assert [life["plan"] for life in lives if life["killed"] and ANSWER not in life["answer"]] == []


def test_everything_is_paid_exactly_once(lives: list[Life]) -> None:
    due = Counter(f"pay {arguments['to']} {arguments['amount']}" for arguments in wanted("pay"))
    for life in lives:
        assert Counter(each for each in life["effects"] if each.startswith("pay")) == due, life["plan"]


def test_what_may_run_again_does_so_under_one_key(lives: list[Life]) -> None:
    keys = [{each for each in life["effects"] if each.startswith("note")} for life in lives]

    assert [len(each) for each in keys] == [1] * len(lives)


def test_the_conversation_is_that_of_the_run_that_nobody_killed(whole: Life, lives: list[Life]) -> None:
    for life in lives:
        if "not run" not in life["looked"]:
            assert retold(life) == retold(whole), life["plan"]


def test_where_a_payment_had_not_been_made_the_model_asks_for_it_once_more(whole: Life, lives: list[Life]) -> None:
    for life in lives:
        if "not run" in life["looked"]:
            assert sorted(map(str, good_calls(life))) == sorted(map(str, good_calls(whole))), life["plan"]
            assert retold(life)[-1] == retold(whole)[-1]
            assert len(texts(life)) == len(texts(whole)) + 1, life["plan"]


def test_every_call_has_one_result_and_every_journal_verifies(lives: list[Life]) -> None:
    for life in lives:
        asked = [message["call"]["id"] for message in life["conversation"] if message["type"] == "invocation"]
        answered = [
            message["result"]["tool_call_id"] for message in life["conversation"] if message["type"] == "result"
        ]
        assert sorted(asked) == sorted(answered), life["plan"]
        assert len(set(asked)) == len(asked), life["plan"]
        assert life["verified"], life["plan"]


def wanted(tool: str) -> list[dict[str, Any]]:
    return [arguments for step in STEPS for name, arguments, _ in step if name == tool]


def texts(life: Life) -> list[str]:
    return [message["text"] for message in life["conversation"] if message["type"] == "assistant"]


def good_calls(life: Life) -> list[tuple[str, Any, Any]]:
    """The calls that gave something, with what they gave."""
    results = {
        message["result"]["tool_call_id"]: message["result"]
        for message in life["conversation"]
        if message["type"] == "result"
    }
    made = [message["call"] for message in life["conversation"] if message["type"] == "invocation"]
    return [
        (call["name"], json.loads(call["arguments"]), results[call["id"]]["content"])
        for call in made
        if results[call["id"]].get("outcome", "ok") == "ok"
    ]


def retold(life: Life) -> list[Any]:
    """What was said and done, without ids, times and remarks."""
    told: list[Any] = []
    for message in life["conversation"]:
        match message:
            case {"type": "invocation", "call": call}:
                told.append((call["name"], call["arguments"]))
            case {"type": "result", "result": result}:
                told.append((result["name"], result.get("outcome", "ok"), result["content"]))
            case {"type": "assistant"}:
                told.append((message["text"], message.get("stop", "end")))
            case _:
                told.append(message["content"])
    return told
