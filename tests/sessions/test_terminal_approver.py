"""`approver="terminal"`: a program asks the person at its terminal, without the command line's packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminal_fixtures import program_dialogue

PROGRAM = """
import sys
from handrail import Secret, Session, tool
from handrail.confirm import Rules, TerminalApprover
from handrail.testing import ScriptedModel, call, text

sys.modules["click"] = None  # the library has no command line


@tool(side_effects=True)
def pay(amount: int, pin: Secret = Secret("0")) -> str:
    return f"paid {amount}"


def session(approver, *amounts):
    model = ScriptedModel([call("pay", amount=amount) for amount in amounts], [text("Done.")])
    return Session(model, tools=[pay], approver=approver)


"""
ONE = """
with session(APPROVER, 5) as one:
    for result in one.ask("Pay.").results:
        print("RESULT", result.outcome, result.text, *result.warnings)
"""


def program(folder: Path, text: str) -> str:
    file = folder / "program.py"
    file.write_text(PROGRAM + text, encoding="utf-8")
    return str(file)


def results(shown: str) -> list[str]:
    return [line.removeprefix("RESULT ") for line in shown.splitlines() if line.startswith("RESULT ")]


@pytest.mark.parametrize("approver", ["'terminal'", "TerminalApprover()", "Rules([], otherwise='terminal')"])
def test_a_person_allows_a_call_that_they_are_shown(tmp_path: Path, approver: str) -> None:
    file = program(tmp_path, ONE.replace("APPROVER", approver))

    code, shown = program_dialogue([sys.executable, file], ("Allow it? ", "y\n"))

    assert (code, results(shown)) == (0, ["ok paid 5"])
    assert 'pay asks to run with these arguments:\n  {\n    "amount": 5' in shown


def test_a_person_denies_a_call_and_says_why(tmp_path: Path) -> None:
    file = program(tmp_path, ONE.replace("APPROVER", "TerminalApprover(by='ada')"))

    _, shown = program_dialogue([sys.executable, file], ("Allow it? ", "n\n"), ("Why? ", "too much\n"))

    assert results(shown) == ["denied ada denied the call to 'pay': too much; do not repeat it"]


def test_a_person_edits_a_call_and_is_asked_again_when_it_does_not_fit(tmp_path: Path) -> None:
    file = program(tmp_path, ONE.replace("APPROVER", "'terminal'"))

    _, shown = program_dialogue(
        [sys.executable, file],
        ("Allow it? ", "e\n"),
        ("on one line: ", '{"amount": "three"}\n'),
        ("expected integer", ""),
        ("Allow it? ", "e\n"),
        ("on one line: ", '{"amount": 3}\n'),
    )

    (result,) = results(shown)
    assert result.startswith("ok paid 3")


def test_a_person_edits_a_call_in_their_editor(tmp_path: Path) -> None:
    file = program(tmp_path, ONE.replace("APPROVER", "'terminal'"))

    _, shown = program_dialogue([sys.executable, file], ("Allow it? ", "e\n"), EDITOR="sed -i s/5/4/")

    assert results(shown)[0].startswith("ok paid 4")


def test_an_editor_that_fails_changes_nothing_and_the_question_comes_again(tmp_path: Path) -> None:
    file = program(tmp_path, ONE.replace("APPROVER", "'terminal'"))

    _, shown = program_dialogue(
        [sys.executable, file],
        ("Allow it? ", "e\n"),
        ("failed", ""),
        ("Allow it? ", "y\n"),
        EDITOR=str(tmp_path / "no-such-editor"),
    )

    assert results(shown) == ["ok paid 5"]


def test_two_blocking_sessions_at_once_ask_one_question_after_the_other(tmp_path: Path) -> None:
    file = program(
        tmp_path,
        """
import threading

outcomes = {}

def run(amount):
    with session("terminal", amount) as one:
        (result,) = one.ask("Pay.").results
        outcomes[amount] = result.outcome

threads = [threading.Thread(target=run, args=(amount,)) for amount in (1, 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("RESULT", sorted(outcomes.items()))
""",
    )

    _, shown = program_dialogue([sys.executable, file], ("Allow it? ", "y\n"), ("Allow it? ", "y\n"))

    assert results(shown) == ["[(1, 'ok'), (2, 'ok')]"]
    first, second = (shown.index("asks to run"), shown.rindex("asks to run"))
    assert first < shown.index("Allow it?") < second < shown.rindex("Allow it?")


def test_what_is_piped_into_a_program_is_no_answer(tmp_path: Path) -> None:
    file = program(tmp_path, ONE.replace("APPROVER", "'terminal'"))

    ran = subprocess.run([sys.executable, file], input="y\n" * 9, capture_output=True, text=True, check=True)

    assert results(ran.stdout)[0].startswith("needs_confirmation")
    assert ran.stderr == ""


ASKING = """
def ask_me(question):
    return input(f"Pay {question.arguments['amount']}? ") == "y"
"""


def test_a_function_that_asks_by_input_is_enough(tmp_path: Path) -> None:
    file = program(tmp_path, ASKING + ONE.replace("APPROVER", "ask_me"))

    code, shown = program_dialogue([sys.executable, file], ("Pay 5? ", "y\n"))

    assert (code, results(shown)) == (0, ["ok paid 5"])


@pytest.mark.parametrize(("approver", "prompt"), [("'terminal'", "Allow it? "), ("ask_me", "Pay 5? ")])
def test_ctrl_c_at_a_question_ends_the_program_and_nothing_is_paid(tmp_path: Path, approver: str, prompt: str) -> None:
    paying = "try:" + ONE.replace("APPROVER", approver).replace("\n", "\n    ") + "\nexcept KeyboardInterrupt:\n"
    file = program(tmp_path, ASKING + paying + "    print('\\nRESULT', one.conversation.messages[-1].result.outcome)\n")

    code, shown = program_dialogue([sys.executable, file], (prompt, "^C"))

    assert (code, results(shown)) == (0, ["cancelled"])
    assert "Traceback" not in shown
