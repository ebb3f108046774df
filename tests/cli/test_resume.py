"""`handrail resume` and `handrail replay`: a run taken up where it stopped, and told again."""

from __future__ import annotations

from pathlib import Path

from tests.cli.journal_fixtures import lines, run
from tests.cli.terminal_fixtures import WITH, dialogue, lines_of, run_of


def waiting(question: str = "pay her") -> tuple[str, str]:
    """A run whose payment waits, and the request."""
    told = run("ask", *WITH, question).stderr
    (asked,) = lines(run("confirm", "list", "--json"))
    return run_of(told), asked["request"]


def test_a_call_that_was_allowed_meanwhile_runs_once_and_the_model_reads_its_result(folder: Path) -> None:
    paused, request = waiting()
    run("confirm", "allow", request, "--by", "ada")

    result = run("resume", paused, *WITH)
    again = run("resume", paused, *WITH)

    assert (result.exit_code, result.stdout) == (0, "So it stands.\n")
    assert '← pay ok: "paid 5 to ada"' in result.stderr
    assert lines_of(folder / "paid.txt") == ["ada 5"]
    assert (again.exit_code, again.stdout) == (0, "So it stands.\n")
    assert "has ended (done)" in again.stderr


def test_a_call_that_was_denied_meanwhile_does_not_run(folder: Path) -> None:
    paused, request = waiting()
    run("confirm", "deny", request, "--by", "ada", "--reason", "too much")

    result = run("resume", paused, *WITH)

    assert (result.exit_code, lines_of(folder / "paid.txt")) == (0, [])
    assert "too much" in result.stderr


def test_a_run_that_still_waits_says_for_what(folder: Path) -> None:
    paused, request = waiting()

    result = run("resume", paused, *WITH)

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert f"handrail confirm allow {request}" in result.stderr


def test_other_tools_than_before_are_pointed_out(folder: Path) -> None:
    paused, request = waiting()
    run("confirm", "allow", request, "--by", "ada")
    (folder / "more.py").write_text("from handrail import tool\n\n\n@tool\ndef more() -> int:\n    return 1\n")

    same = run("ask", *WITH, "hello").stderr
    other = run("resume", paused, *WITH, "--tools", "more.py")

    assert "tools are not the same as before" in other.stderr
    assert "tools are not the same as before" not in same
    assert lines_of(folder / "paid.txt") == ["ada 5"]


def test_on_a_terminal_resuming_asks_the_question_again(folder: Path) -> None:
    paused, _ = waiting()

    code, shown = dialogue(["resume", paused, *WITH], ("Allow it?", "y\n"))

    assert (code, lines_of(folder / "paid.txt")) == (0, ["ada 5"])
    assert "So it stands." in shown


def test_ids_can_be_cut_short_and_unknown_ones_are_refused(folder: Path) -> None:
    run("ask", *WITH, "the sum?")

    assert run("resume", "run_", *WITH).exit_code == 0
    assert run("resume", "nothing", *WITH).exit_code == 1


def test_a_replay_tells_the_run_again_without_model_or_tools(folder: Path) -> None:
    first = run("ask", *WITH, "the sum?")

    told = run("replay", run_of(first.stderr))

    assert (told.exit_code, told.stdout) == (0, first.stdout)
    assert told.stderr.splitlines()[:2] == ["> the sum?", "→ add a=1 b=2"]
    assert lines_of(folder / "added.txt") == ["1 2"]


def test_a_replay_in_json_has_the_recorded_events_in_their_order(folder: Path) -> None:
    first = run("ask", *WITH, "--json", "the sum?")
    recorded = {"conversation.changed", "tools.offered", "call.intended", "call.settled", "reply.given"}

    told = lines(run("replay", run_of(first.stderr), "--json"))

    assert [each for each in told if each["type"] in recorded] == [
        each for each in lines(first) if each["type"] in recorded
    ]
