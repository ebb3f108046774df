"""`handrail trace`, at the door: a real run, and its waterfall as text, as JSON and in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.journal_fixtures import run

TOOLS = '''
from handrail import tool


@tool(side_effects=False)
def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"sunny in {city}"
'''
REPLIES = {
    "reply": [
        {"when": "", "text": "One moment.", "calls": [{"name": "weather", "arguments": {"city": "Kleve"}}]},
        {"when": "", "text": "It is sunny."},
    ]
}
CONFIG = 'default_model = "s"\n[models.s]\nprovider = "scripted"\nmodel = "replies.json"\n'


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The run of a question that took one call."""
    monkeypatch.chdir(tmp_path)
    tools = f"tools_of_{tmp_path.name}.py"  # another test has its own module
    (tmp_path / tools).write_text(TOOLS)
    (tmp_path / "replies.json").write_text(json.dumps(REPLIES))
    (tmp_path / "handrail.toml").write_text(CONFIG)
    assert run("ask", "--tools", tools, "What is the weather?").exit_code == 0
    return str(json.loads(run("proof", "list", "--json").stdout)["run"])


def test_a_run_is_shown_as_a_waterfall_with_its_sums(asked: str) -> None:
    shown = run("trace", asked[:8]).stdout

    assert shown.splitlines()[1].split() == [
        "START", "TOOK", "WHAT", "STATE", "TOKENS", "IN", "CACHED", "OUT", "COST", "SPAN",
    ]  # fmt: skip
    assert "  weather" in shown and "█" in shown
    assert "2 turns, 1 call; 0 tokens in (0 cached), 0 out" in shown


def test_the_same_is_given_as_json_and_written_to_a_file(asked: str, tmp_path: Path) -> None:
    told = json.loads(run("trace", asked, "--json").stdout)
    run("trace", asked, "-o", "trace.json")

    assert [span["kind"] for span in told["spans"]] == ["turn", "call", "turn"]
    assert json.loads((tmp_path / "trace.json").read_text()) == told


def test_without_a_run_the_turns_of_each_day_and_model_are_summed(asked: str) -> None:
    (day,) = [json.loads(line) for line in run("trace", "--json").stdout.splitlines()]

    assert (day["model"], day["totals"]["turns"]) == ("scripted", 2)


def test_a_file_that_cannot_be_written_and_a_run_that_is_none_are_said(asked: str) -> None:
    assert "cannot be written" in run("trace", asked, "-o", "no/such/folder/t.json").stderr
    assert "run_none" in run("trace", "run_none").stderr
