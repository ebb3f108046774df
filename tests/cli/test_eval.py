"""`handrail eval`: your own cases, with your own tools, over models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail import LLM
from handrail.app import AppAdditions, open_app
from handrail.cli.evaluate.cases import EvalCase, EvalFile
from handrail.cli.evaluate.judge import judge_case
from handrail.config.values import Config
from handrail.core.events import ReplyFinished
from handrail.core.messages import Usage
from handrail.testing import FixedClock, ScriptedModel, call, text
from tests.cli.journal_fixtures import lines, run
from tests.cli.terminal_fixtures import lines_of
from tests.replies import calls, says

CASES = """
models = ["scripted:script.toml", "scripted:other.toml"]
system = "Be brief."

[results]
pay = "paid, or so we say"

[[case]]
id = "sum"
say = "What is the sum?"
calls = [{ tool = "add", arguments = { a = 1, b = [2, 3] } }]
answer = "it is 3"

[[case]]
id = "pay"
say = "pay ada"
calls = [{ tool = "pay" }]

[[case]]
id = "hello"
say = "hello"
calls = []
"""
TOOLS = ("--tools", "talk_tools.py")


@pytest.fixture
def cases(folder: Path) -> Path:
    (folder / "cases.toml").write_text(CASES)
    other = (
        calls("sum", "add", "a = 1, b = 5", then="It is 6.")
        + says("pay", "No.")
        + calls("hello", "add", "a = 1, b = 1", then="Hi.")
    )
    (folder / "other.toml").write_text('name = "other"\n' + other)
    return folder / "cases.toml"


def test_a_table_says_of_each_case_and_model_what_was_called_with_what_and_answered(cases: Path) -> None:
    result = run("eval", "cases.toml", *TOOLS)

    heading, *rows = result.stdout.splitlines()
    assert heading.split() == ["CASE", "MODEL", "RIGHT", "TOOL", "ARGUMENTS", "ANSWER", "COST", "TIME"]
    first = rows[0].split("  ")
    assert [part.strip() for part in first if part.strip()][:6] == [
        "sum", "scripted:script.toml", "yes", "add", "a=1 b=2", "It is 3."
    ]  # fmt: skip
    assert [row.split()[:3] for row in rows[:6]] == [
        ["sum", "scripted:script.toml", "yes"],
        ["pay", "scripted:script.toml", "yes"],
        ["hello", "scripted:script.toml", "yes"],
        ["sum", "scripted:other.toml", "no"],
        ["pay", "scripted:other.toml", "no"],
        ["hello", "scripted:other.toml", "no"],
    ]
    assert [row.split()[:2] for row in rows[8:]] == [["scripted:script.toml", "3/3"], ["scripted:other.toml", "0/3"]]
    assert result.exit_code == 1


def test_reads_run_and_what_changes_something_does_not(cases: Path, folder: Path) -> None:
    result = run("eval", "cases.toml", *TOOLS, "-m", "scripted:script.toml", "--json")

    told: list[dict[str, Any]] = lines(result)
    assert lines_of(folder / "added.txt") == ["1 2"]
    assert lines_of(folder / "paid.txt") == []
    assert [(each["case"], each["right"]) for each in told] == [("sum", True), ("pay", True), ("hello", True)]
    assert result.exit_code == 0


def test_a_trial_leaves_no_journal(cases: Path, folder: Path) -> None:
    run("eval", "cases.toml", *TOOLS)

    assert not (folder / ".handrail").exists()


def test_failures_say_what_was_expected(cases: Path) -> None:
    result = run("eval", "cases.toml", *TOOLS, "--failures", "-m", "scripted:other.toml")

    assert "scripted:other.toml sum: expected add a=1 b=[2, 3]; got add a=1 b=5" in result.stderr
    assert "scripted:other.toml sum: expected 'it is 3' in: It is 6." in result.stderr
    assert "scripted:other.toml pay: expected pay; got no call" in result.stderr
    assert "scripted:other.toml hello: expected no call; got add a=1 b=1" in result.stderr


def test_failures_say_which_arguments_a_case_leaves_out(cases: Path) -> None:
    cases.write_text(CASES.replace("{ a = 1, b = [2, 3] }", "{ a = 1 }"))

    result = run("eval", "cases.toml", *TOOLS, "--failures", "-m", "scripted:other.toml", "--case", "sum")

    assert "expected add a=1; got add a=1 b=5; the case does not say what 'b' may be" in result.stderr


def test_an_unavailable_model_is_a_problem_and_the_others_are_asked(cases: Path) -> None:
    result = run("eval", "cases.toml", *TOOLS, "-m", "scripted:none.toml", "-m", "scripted:script.toml", "--json")

    told = lines(result)
    assert [each["right"] for each in told] == [False] * 3 + [True] * 3
    assert "none.toml" in told[0]["problem"]
    assert result.exit_code == 1


def test_only_the_named_cases_are_run(cases: Path) -> None:
    told = lines(run("eval", "cases.toml", *TOOLS, "-m", "scripted:script.toml", "--case", "hello", "--json"))

    assert [each["case"] for each in told] == ["hello"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "is not a file of cases"),
        ("case = []", "has no case"),
        ('[[case]]\nid = "a"\nsay = "b"\nexpect = 1', "expect"),
        ('[[case]]\nid = "a"\nsay = "b"\n[[case]]\nid = "a"\nsay = "c"', "two cases have the id 'a'"),
        ('[[case]]\nid = "a"\nsay = "b"\ncalls = [{ tool = "ad" }]', "a tool 'ad' that does not exist"),
        ('[results]\nsubtract = 1\n[[case]]\nid = "a"\nsay = "b"', "a tool 'subtract' that does not exist"),
    ],
)
def test_a_mistake_in_the_file_is_told_before_a_model_is_asked(folder: Path, written: str, said: str) -> None:
    (folder / "cases.toml").write_text(written)

    result = run("eval", "cases.toml", *TOOLS, "-m", "scripted:script.toml")

    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr


async def test_the_cost_of_a_case_is_that_of_all_its_replies(folder: Path) -> None:
    priced = ReplyFinished(stop="end", usage=Usage(input_tokens=10, output_tokens=2, cost=0.25))
    calling = ReplyFinished(stop="tool_calls", usage=Usage(input_tokens=5, output_tokens=1, cost=0.5))
    model = ScriptedModel([call("add", a=1, b=2), calling], [text("3"), priced])
    case = EvalCase("sum", "1 + 2?")
    async with open_app(Config(), folder / "journal.db", AppAdditions(tools=("talk_tools.py",))) as app:
        verdict = await judge_case("priced", LLM(model), app, EvalFile((case,)), case, FixedClock())

    assert (verdict.cost, verdict.input_tokens, verdict.output_tokens, verdict.right) == (0.75, 15, 3, True)
