"""Turns with the real model: `python -m tests.models.local.dialogue_run` prints how many are right.

`make test` holds few dialogues, which have every kind of turn. HANDRAIL_DIALOGUES=all holds all of them, as `make soak`
does.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from handrail import create_llm
from handrail.core.errors import UsageError
from handrail.sessions.llm import LLM
from tests.desk.page.node_process import NodeProcess
from tests.models.local.dialogue_judge import invented
from tests.models.local.dialogue_run import hold, line
from tests.models.local.dialogues import DIALOGUES, FEW, Dialogue

TOOLS = Path(__file__).with_name("dialogue_tools.py")
HELD = DIALOGUES if os.environ.get("HANDRAIL_DIALOGUES") == "all" else FEW
CONFIG = 'default_model = "local"\n\n[models.local]\nprovider = "local"\n'


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    model = create_llm("local")
    yield model
    model.close()


def test_there_are_over_a_hundred_turns_and_the_few_dialogues_have_every_kind_of_them_and_every_tool() -> None:
    assert sum(len(dialogue.turns) for dialogue in DIALOGUES) > 100
    assert {turn.kind for each in FEW for turn in each.turns} == {
        turn.kind for each in DIALOGUES for turn in each.turns
    }
    assert {each.tools for each in FEW} == {each.tools for each in DIALOGUES}


@pytest.mark.parametrize("dialogue", HELD, ids=lambda dialogue: dialogue.turns[0].said)
async def test_no_turn_states_a_number_name_or_date_that_nobody_said_and_no_tool_returned(
    llm: LLM, dialogue: Dialogue
) -> None:
    async with asyncio.timeout(250):
        verdicts = await hold(llm, dialogue)
    assert [line(verdict) for verdict in verdicts if verdict.invented] == []
    assert [line(verdict) for verdict in verdicts if verdict.turn.kind == "thanks" and verdict.calls] == []
    told = [verdict for verdict in verdicts if verdict.turn.denied and verdict.calls_right]
    assert [line(verdict) for verdict in told if not verdict.answer_right] == []


def test_a_misspelt_kind_of_answers_is_a_mistake_that_says_what_to_write() -> None:
    with pytest.raises(UsageError, match="answers='bound' or answers='free'"):
        create_llm("local", answers="loose")


def test_the_command_line_says_only_what_the_tool_returned(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "handrail",
            "ask",
            "-m",
            "local",
            "--tools",
            str(TOOLS),
            "How many umbrellas are in stock?",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert "12" in done.stdout, done.stderr
    assert invented(done.stdout, "item umbrella in stock 12 How many umbrellas are in stock?") == ()


def test_a_gateway_hands_on_only_what_the_tool_returned(tmp_path: Path) -> None:
    (tmp_path / "handrail.toml").write_text(CONFIG, encoding="utf-8")
    with NodeProcess(tmp_path, tmp_path / "state", "--tools", str(TOOLS)) as node:
        client = openai.OpenAI(base_url=f"{node.url}/v1", api_key=node.token, timeout=250, max_retries=0)
        with client:
            reply = client.chat.completions.create(
                model="local", messages=[{"role": "user", "content": "How many umbrellas are in stock?"}]
            )
    said = reply.choices[0].message.content or ""
    assert "12" in said
    assert invented(said, "item umbrella in stock 12 How many umbrellas are in stock?") == ()
