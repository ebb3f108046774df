"""`handrail what-if`: recorded runs against another model, prompt or policy, with effects shut."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from handrail import LLM, Conversation, Executor, Session, Tool
from handrail.cli.what_if.divergence import Alternative, compare_turn
from handrail.cli.what_if.recorded_run import RecordedRun, RecordedTurn
from handrail.run.offering import Offering
from handrail.testing import ScriptedModel, call, text
from tests.cli.journal_fixtures import lines, run
from tests.cli.terminal_fixtures import WITH, lines_of, run_of
from tests.replies import calls, says

TOOLS = ("--tools", "talk_tools.py")


def asked(question: str, *options: str) -> str:
    """A run that is on record."""
    return run_of(run("ask", *WITH, *options, question).stderr)


def test_with_nothing_changed_nothing_diverges_and_nothing_runs(folder: Path) -> None:
    recorded = asked("sum")
    (folder / "added.txt").unlink()

    result = run("what-if", "--run", recorded, *TOOLS)

    heading, first, second = result.stdout.splitlines()
    assert heading.split() == ["RUN", "TURN", "RECORDED", "NOW", "DIVERGES"]
    assert first.split()[1:] == ["1", "add", "a=1", "b=2:", "ok", "add", "a=1", "b=2:", "ok", "-"]
    assert second.split()[1:] == ["2", "It", "is", "3.", "It", "is", "3.", "-"]
    assert (result.exit_code, result.stderr, lines_of(folder / "added.txt")) == (0, "", [])


def test_another_model_is_compared_turn_by_turn(folder: Path) -> None:
    recorded = asked("sum")
    (folder / "other.toml").write_text(calls("sum", "add", "a = 1, b = 5", then="It is 6, no: 3."))

    result = run("what-if", "--run", recorded, "-m", "scripted:other.toml", *TOOLS, "--json")

    first, second = lines(result)
    assert (first["diverges"], first["calls"][0]["arguments"]) == ("calls", {"a": 1, "b": 5})
    assert first["calls"][0]["outcome"] == "would run"
    assert (second["diverges"], second["text"]) == ("words", "It is 6, no: 3.")
    assert lines_of(folder / "added.txt") == ["1 2"]
    assert result.exit_code == 1


def test_other_words_alone_are_told_and_are_no_failure(folder: Path) -> None:
    recorded = asked("hello")
    (folder / "other.toml").write_text(says("hello", "Good day!"))

    result = run("what-if", "--run", recorded, "-m", "scripted:other.toml", *TOOLS)

    assert result.stdout.splitlines()[1].split()[-1] == "words"
    assert result.exit_code == 0


def test_a_rule_that_would_have_refused_a_call_is_where_it_diverges(folder: Path) -> None:
    recorded = asked("pay", "--yes")
    (folder / "strict.rules").write_text("# nobody is paid\ndeny pay\n")

    result = run("what-if", "--run", recorded, "--rules", "strict.rules", *TOOLS)

    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].split()[-1] == "outcome"
    assert 'first diverges at turn 1: recorded pay to="ada" amount=5: ok' in result.stderr
    assert "rule 'deny pay'" in result.stderr
    assert lines_of(folder / "paid.txt") == ["ada 5"]


def test_what_a_person_allowed_in_the_record_is_still_allowed(folder: Path) -> None:
    recorded = asked("pay", "--yes")

    result = run("what-if", "--run", recorded, *TOOLS, "--json")

    assert [each["diverges"] for each in lines(result)] == [None, None]
    assert lines_of(folder / "paid.txt") == ["ada 5"]


def test_what_only_a_rule_allowed_diverges_where_the_rule_is_gone(folder: Path) -> None:
    recorded = asked("pay", "--rule", "allow pay")
    (folder / "none.rules").write_text("\n")
    (folder / "same.rules").write_text("allow pay to=ada\n")

    gone = lines(run("what-if", "--run", recorded, "--rules", "none.rules", *TOOLS, "--json"))
    same = lines(run("what-if", "--run", recorded, "--rules", "same.rules", *TOOLS, "--json"))

    assert (gone[0]["diverges"], gone[0]["calls"][0]["outcome"]) == ("outcome", "needs_confirmation")
    assert same[0]["diverges"] is None


def test_rules_that_allow_more_say_what_would_run(folder: Path) -> None:
    recorded = asked("pay", "--rule", "deny pay")
    (folder / "loose.rules").write_text("allow pay\n")

    first, _ = lines(run("what-if", "--run", recorded, "--rules", "loose.rules", *TOOLS, "--json"))

    assert (first["recorded_calls"][0]["outcome"], first["calls"][0]["outcome"]) == ("denied", "would run")
    assert lines_of(folder / "paid.txt") == []


def test_rules_and_policy_of_another_configuration_are_taken(folder: Path) -> None:
    recorded = asked("pay", "--yes")
    (folder / "other.toml").write_text('rules = ["deny pay"]\n')

    first, _ = lines(run("what-if", "--run", recorded, "--rules", "other.toml", *TOOLS, "--json"))

    assert first["calls"][0]["outcome"] == "denied"


def test_a_call_with_a_secret_is_replayed_without_it(folder: Path) -> None:
    recorded = asked("log in", "--yes")

    result = run("what-if", "--run", recorded, *TOOLS, "--json")

    assert [each["diverges"] for each in lines(result)] == [None, None]
    assert "opensesame" not in result.output


def test_another_prompt_reaches_the_model(folder: Path) -> None:
    recorded = asked("hello")
    result = run("what-if", "--run", recorded, "--system", "Be rude.", *TOOLS)
    assert "needs a model" in result.stderr

    told = run("what-if", "--run", recorded, "--system", "Be rude.", "-m", "scripted:script.toml", *TOOLS)

    assert (told.exit_code, told.stdout.splitlines()[1].split()[-1]) == (0, "-")


def test_several_runs_are_compared_and_the_journal_stays_as_it_was(folder: Path) -> None:
    first, second = asked("sum"), asked("hello")
    before = run("proof", "list", "--json").stdout

    told = lines(run("what-if", "--run", first, "--run", second, *TOOLS, "--json"))

    assert [each["run"] for each in told] == [first, first, second]
    assert run("proof", "list", "--json").stdout == before


def test_a_run_of_a_model_that_was_not_offered_to_read_on_had_the_same_tools(folder: Path) -> None:
    asked("hello")  # it begins the journal
    tools = [each for each in runpy.run_path(str(folder / "talk_tools.py")).values() if isinstance(each, Tool)]
    model = ScriptedModel([call("add", a=1, b=2)], [text("It is 3.")])
    with Session(
        model, tools=tools, journal=folder / ".handrail/journal.db", approver=lambda question: True
    ) as session:
        session.ask("sum")
        recorded = session.run

    result = run("what-if", "--run", str(recorded), *TOOLS)

    assert result.stderr == ""


def test_other_tools_than_the_run_had_are_told(folder: Path) -> None:
    recorded = asked("sum")

    result = run("what-if", "--run", recorded)

    assert "had other tools; give the same ones" in result.stderr
    assert result.stdout.splitlines()[1].split()[-1] == "outcome"
    assert "unknown_tool" in result.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--run", "run_none"), "there is no run 'run_none'"),
        (("--run", "RUN", "--rules", "missing.rules"), "cannot be read"),
        (("--run", "RUN", "--rules", "talk_tools.py"), "is not of the form"),
        (("--run", "RUN", "-m", "nobody:x"), "there is no model"),
    ],
)
def test_a_mistake_is_one_line(folder: Path, options: tuple[str, ...], said: str) -> None:
    recorded = asked("hello")

    result = run("what-if", *(recorded if each == "RUN" else each for each in options), *TOOLS)

    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr


async def test_the_model_reads_the_other_prompt_and_the_recorded_conversation() -> None:
    model = ScriptedModel([text("Hello.")])
    said = Conversation().supervised("Be brief.").say("hello")
    turn = RecordedTurn(before=said, text="Hello.", stop="end", calls=(), settled=())
    async with Executor([]) as executor:
        other = Alternative(executor, Offering(), LLM(model), "Be rude.")
        compared = await compare_turn(RecordedRun(run="run_1", turns=(turn,), events=()), 0, other)

    assert compared.diverges is None
    assert model.requests[0].messages == Conversation().supervised("Be rude.").say("hello").messages


def test_a_model_that_gives_no_reply_diverges_and_says_why(folder: Path) -> None:
    recorded = asked("hello")
    (folder / "broken.toml").write_text('[[reply]]\nerror = "model_unavailable"\ntext = "the service is away"\n')

    result = run("what-if", "--run", recorded, "-m", "scripted:broken.toml", *TOOLS)

    assert (result.exit_code, result.stdout.splitlines()[1].split()[-1]) == (1, "error")
    assert "the service is away" in result.stderr


def test_equal_calls_of_one_reply_that_share_a_failure_do_not_diverge(folder: Path) -> None:
    (folder / "lucky_tools.py").write_text(
        'from handrail import ToolError, tool\n\n\n@tool\ndef draw(of: str) -> str:\n    """Draw."""\n'
        '    raise ToolError("NO_LUCK", "not today")\n'
    )
    twice = '{ name = "draw", arguments = { of = "lots" } }'
    (folder / "twice.toml").write_text(f'[[reply]]\ncalls = [{twice}, {twice}]\n[[reply]]\ntext = "No luck."\n')
    recorded = run_of(run("ask", "-m", "scripted:twice.toml", "--tools", "lucky_tools.py", "draw").stderr)

    told = lines(run("what-if", "--run", recorded, "--tools", "lucky_tools.py", "--json"))

    assert [call["outcome"] for call in told[0]["recorded_calls"]] == ["failed", "failed"]
    assert [each["diverges"] for each in told] == [None, None]
