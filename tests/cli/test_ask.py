"""`handrail ask`: the answer, the tools, a person's word, and what is left when it is cut off."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.journal_fixtures import command, environment, lines, run
from tests.cli.pages import PAGE
from tests.cli.terminal_fixtures import WITH, configure, dialogue, lines_of, run_of


def test_the_answer_is_on_stdout_and_what_was_done_beside_it(folder: Path) -> None:
    result = run("ask", *WITH, "the sum?")

    assert (result.exit_code, result.stdout) == (0, "Let me see.\nIt is 3.\n")
    called, returned, told = result.stderr.splitlines()
    assert called == "→ add a=1 b=2"
    assert returned.startswith("← add ok: 3, ")
    assert told == f"run {run_of(told)}"


def test_a_model_without_its_service_is_answered_with_how_to_write_it(folder: Path) -> None:
    result = run("ask", "-m", "gpt-5", "hello")

    assert result.exit_code == 1
    assert "write SERVICE:MODEL, where the service is one of anthropic," in result.stderr


def test_every_run_is_in_the_journal_and_verifies(folder: Path) -> None:
    told = run("ask", *WITH, "the sum?").stderr

    (listed,) = lines(run("proof", "list", "--json"))

    assert (listed["run"], listed["calls"], listed["state"]) == (run_of(told), 1, "done")
    assert run("proof", "verify").exit_code == 0


def test_with_a_configuration_nothing_need_be_named(folder: Path) -> None:
    configure(folder)
    (folder / "below").mkdir()
    os.chdir(folder / "below")

    result = run("ask", "the", "sum?")

    assert (result.exit_code, result.stdout) == (0, "Let me see.\nIt is 3.\n")
    assert (folder / ".handrail" / "journal.db").exists()


def test_in_json_every_event_is_a_line(folder: Path) -> None:
    events = lines(run("ask", *WITH, "--json", "the sum?"))

    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["conversation.changed", "tools.offered"]
    assert {"call.requested", "call.intended", "call.settled", "reply.given"} < set(kinds)
    assert "".join(event["text"] for event in events if event["type"] == "text.delta") == "Let me see.It is 3."
    assert kinds[-3:] == ["reply.finished", "reply.given", "result"]


def test_in_json_the_last_line_has_the_result_or_what_waits(folder: Path) -> None:
    done = lines(run("ask", *WITH, "--json", "the sum?"))[-1]
    left = run("ask", *WITH, "--json", "pay her")
    waits = lines(left)[-1]

    assert (done["type"], done["state"], done["text"], done["waiting"]) == ("result", "done", "It is 3.", [])
    assert done["run"].startswith("run_")
    assert (waits["state"], waits["text"], [each["tool"] for each in waits["waiting"]]) == ("waiting", "", ["pay"])
    assert left.exit_code == 1


def test_what_is_piped_in_is_given_to_the_model_beside_the_question(folder: Path) -> None:
    first = lines(run("ask", *WITH, "--json", "--system", "be kind", "the sum?", text="1 and 2\n"))[0]

    assert [message["type"] for message in first["messages"]] == ["supervisor", "document", "user"]
    assert first["messages"][1]["text"] == "1 and 2\n"


def test_a_question_may_be_piped_in_and_none_is_refused(folder: Path) -> None:
    piped, none = run("ask", *WITH, text="the sum?"), run("ask", *WITH)

    assert (piped.exit_code, piped.stdout) == (0, "Let me see.\nIt is 3.\n")
    assert (none.exit_code, none.stderr.count("\n")) == (1, 1)


def test_where_nobody_can_be_asked_a_side_effect_waits_and_one_is_told_how_to_go_on(folder: Path) -> None:
    result = run("ask", *WITH, "pay her")

    assert (result.exit_code, result.stdout, lines_of(folder / "paid.txt")) == (1, "", [])
    assert "pay waits for approval. Allow it with: handrail confirm allow confirm_" in result.stderr
    assert f"handrail resume {run_of(result.stderr)} -m scripted:script.toml --tools talk_tools.py" in result.stderr


@pytest.mark.parametrize(
    ("word", "by"), [(("--yes",), ", by --yes"), (("--rule", "allow pay to=ada"), "rule 'allow pay to=ada'")]
)
def test_an_approval_given_beforehand_lets_it_run_and_is_on_record(
    folder: Path, word: tuple[str, ...], by: str
) -> None:
    result = run("ask", *WITH, *word, "--json", "pay her")

    answers = [event for event in lines(result) if event["type"] == "confirmation.answered"]
    assert (result.exit_code, lines_of(folder / "paid.txt")) == (0, ["ada 5"])
    assert answers[0]["by"].endswith(by)


def test_a_rule_that_denies_is_stronger_than_yes(folder: Path) -> None:
    result = run("ask", *WITH, "--yes", "--rule", "deny pay", "pay her")

    assert lines_of(folder / "paid.txt") == []
    assert "← pay denied:" in result.stderr


def test_progress_is_told_beside_the_answer(folder: Path) -> None:
    result = run("ask", *WITH, "count")

    assert "  count 50% half" in result.stderr.splitlines()
    assert "← count ok" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-m", "opnai:gpt-5"), "did you mean 'openai'?"),
        (("-m", "scripted:none.toml"), "cannot be read"),
        (("-m", "scripted:script.toml", "--tools", "nothing.py"), "there is no such file"),
        (("-m", "scripted:script.toml", "--tools", "talk_tools:ad"), "did you mean 'add'?"),
        (("-m", "scripted:script.toml", "--tools", "talk_tools:TOOLS"), "has no 'TOOLS'"),
        (("-m", "scripted:script.toml", "--tools", "os:sep"), "str is not a tool"),
        (("-m", "scripted:script.toml", "--rule", "maybe pay"), "is not of the form"),
    ],
)
def test_an_unavailable_part_is_reported_in_one_line(folder: Path, options: tuple[str, ...], said: str) -> None:
    result = run("ask", *options, "the sum?")

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert said in result.stderr


def test_a_model_that_fails_leaves_a_run_that_can_be_taken_up(folder: Path) -> None:
    result = run("ask", *WITH, "something else")

    told, error = result.stderr.splitlines()
    assert result.exit_code == 1
    assert told.startswith("Interrupted; resume it with: handrail resume run_")
    assert "was asked for one more" in error


def test_what_a_model_says_cannot_steer_the_terminal(folder: Path) -> None:
    (folder / "nasty.json").write_text(json.dumps({"reply": [{"text": "\x1b[2J\u202eevil\r\nnext"}]}))

    result = run("ask", "-m", "scripted:nasty.json", "go")

    assert result.stdout == "\\x1b[2J\\u202eevil\nnext\n"


# ── a person at the terminal ─────────────────────────────────────────────────────────────


def test_on_a_terminal_one_is_asked_after_seeing_exactly_what_will_run(folder: Path) -> None:
    code, shown = dialogue(["ask", *WITH, "pay her"], ("Allow it?", "y\n"))

    asked = 'pay asks to run with these arguments:\n  {\n    "to": "ada",\n    "amount": 5\n  }\nAllow it?'
    assert (code, lines_of(folder / "paid.txt")) == (0, ["ada 5"])
    assert asked in shown
    assert f"{asked} [y/N/e(dit)/l(ater)] y\n" in PAGE.read_text(encoding="utf-8")
    assert "So it stands." in shown


def test_a_no_needs_no_reason_and_the_model_reads_one_if_there_is(folder: Path) -> None:
    code, shown = dialogue(["ask", *WITH, "pay her"], ("Allow it?", "n\n"), ("Why?", "wrong account\n"))

    assert (code, lines_of(folder / "paid.txt")) == (0, [])
    assert re.search(r"← pay denied: .*wrong account", shown)


def test_a_person_may_change_what_will_run_and_what_does_not_fit_is_asked_again(folder: Path) -> None:
    code, shown = dialogue(
        ["ask", *WITH, "pay her"],
        ("Allow it?", "e\n"),
        ("on one line:", '{"to": "eve", "amount": "all"}\n'),
        ("Allow it?", "e\n"),
        ("on one line:", "{not json}\n"),
        ("Allow it?", "e\n"),
        ("on one line:", '{"to": "eve", "amount": 1}\n'),
    )

    assert (code, lines_of(folder / "paid.txt")) == (0, ["eve 1"])
    assert "amount: expected integer" in shown
    assert "this is not JSON" in shown


def test_secrets_are_not_shown_and_stay_as_they_were_when_other_things_are_changed(folder: Path) -> None:
    code, shown = dialogue(
        ["ask", *WITH, "log in"],
        ("Allow it?", "e\n"),
        ("on one line:", '{"user": "eve", "password": "[redacted]"}\n'),
    )

    assert code == 0
    assert "very-secret" not in shown.partition("log_in asks")[2]
    assert "← log_in ok" in shown


def test_later_leaves_the_call_waiting(folder: Path) -> None:
    code, shown = dialogue(["ask", *WITH, "pay her"], ("Allow it?", "l\n"))

    assert (code, lines_of(folder / "paid.txt")) == (1, [])
    assert "handrail confirm allow" in shown


# ── cut off ──────────────────────────────────────────────────────────────────────────────


def cut_off(tool: str, question: str, how: signal.Signals) -> tuple[int, str]:
    """`handrail ask`, ended by a signal while that tool is at work."""
    asked = command("ask", *WITH, "--yes", question)
    with subprocess.Popen(
        asked,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(HOLD=tool),
    ) as process:
        assert process.stderr is not None
        told = ""
        while "under way" not in told:
            line = process.stderr.readline()
            assert line, f"it ended before: {told}"
            told += line
        process.send_signal(how)
        _, rest = process.communicate()
    return process.returncode, told + rest


def test_a_killed_side_effect_is_not_repeated_and_the_run_goes_on_to_its_end(folder: Path) -> None:
    code, _ = cut_off("pay", "pay her", signal.SIGKILL)
    (left,) = lines(run("proof", "list", "--json"))

    result = run("resume", left["run"], *WITH)

    assert (code, left["state"]) == (-signal.SIGKILL, "open, 1 unanswered")
    assert (result.exit_code, result.stdout) == (0, "So it stands.\n")
    assert "← pay in_doubt:" in result.stderr
    assert lines_of(folder / "paid.txt") == ["ada 5"]
    assert run("proof", "verify").exit_code == 0


def test_a_killed_side_effect_that_a_person_settled_is_not_asked_about_again(folder: Path) -> None:
    cut_off("pay", "pay her", signal.SIGKILL)
    (left,) = lines(run("proof", "list", "--json"))
    (call,) = {each["call_id"] for each in lines(run("proof", "show", left["run"], "--json")) if "call_id" in each}
    run("confirm", "settle", left["run"], call, "--ran", "paid 5 to ada", "--by", "ada")

    first, again = (run("resume", left["run"], *WITH) for _ in range(2))

    assert (first.exit_code, first.stdout) == (0, "So it stands.\n")
    assert (again.exit_code, again.stdout) == (0, "So it stands.\n")
    assert "has ended (done)" in again.stderr
    assert lines_of(folder / "paid.txt") == ["ada 5"]


def test_a_killed_read_runs_again_and_the_answer_is_the_same(folder: Path) -> None:
    cut_off("add", "the sum?", signal.SIGKILL)
    (left,) = lines(run("proof", "list", "--json"))

    result = run("resume", left["run"], *WITH)

    assert (result.exit_code, result.stdout) == (0, "It is 3.\n")
    assert lines_of(folder / "added.txt") == ["1 2", "1 2"]


def test_ctrl_c_ends_with_130_and_says_how_to_take_the_run_up(folder: Path) -> None:
    code, told = cut_off("pay", "pay her", signal.SIGINT)

    assert (code, "Traceback" in told) == (130, False)
    assert f"resume it with: handrail resume {run_of(told)} -m scripted:script.toml --tools talk_tools.py" in told
    assert run("resume", run_of(told), *WITH).stdout == "So it stands.\n"
    assert lines_of(folder / "paid.txt") == ["ada 5"]
