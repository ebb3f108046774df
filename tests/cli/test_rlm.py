"""`handrail rlm`: a question over a context, what is shown of it, what waits, and what is left when it is cut off."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.journal_fixtures import command, environment, lines, run
from tests.cli.terminal_fixtures import dialogue, lines_of, run_of

WITH = ("--sub", "scripted:sub.json", "--tools", "talk_tools.py")
ASK = ("rlm", "ask", "--context", "hay.txt", *WITH)


def code(*lines: str) -> str:
    return "\n".join(("```repl", *lines, "```"))


PAY = code("said = 'nobody'", 'said = pay(to="ada", amount=5)')
ROOTS = {
    "birds": [
        code("print(len(context))"),
        code('replies = llm_query_batched(["bird " + str(n) for n in range(3)])', "print(replies)"),
        code('answer["content"] = " ".join(replies)', 'answer["ready"] = True'),
    ],
    "pay": [PAY, code("FINAL(said)")],
    "sly": [
        code("try:", '    pay(to="ada", amount=5)', "except Exception:", '    pay(to="eve", amount=9)'),
        code('FINAL("sly")'),
    ],
    "deep": [code('rlm_query("pay her")'), code('FINAL("deep")')],
    "drafts": [code('answer["content"] = "a draft"'), code("1 / 0"), code("1 / 0")],
}
"""What the model that writes code says, turn by turn, by the name of its script."""


@pytest.fixture(autouse=True)
def scripts(folder: Path) -> None:
    for name, replies in ROOTS.items():
        said = [{"text": reply} for reply in replies]
        (folder / f"{name}.json").write_text(json.dumps({"reply": [*said, {"when": "pay her", "text": PAY}]}))
    birds = [{"when": f"bird {n}", "text": f"{n} is none."} for n in range(3)]
    (folder / "sub.json").write_text(json.dumps({"name": "sub", "reply": birds}))
    (folder / "hay.txt").write_text("All work and no play.\n" * 20)


def by(root: str, *others: str) -> tuple[str, ...]:
    """A question to the model of that script."""
    return (*ASK, "-m", f"scripted:{root}.json", *others, "Pay 5 to ada." if root == "pay" else "Well?")


def again(root: str, run_id: str, *others: str) -> Result:
    return run("rlm", "resume", run_id, "--context", "hay.txt", "-m", f"scripted:{root}.json", *WITH, *others)


def test_the_answer_is_on_stdout_and_each_turn_is_a_line_beside_it(folder: Path) -> None:
    result = run(*by("birds"))

    assert (result.exit_code, result.stdout) == (0, "0 is none. 1 is none. 2 is none.\n")
    *turns, told = result.stderr.splitlines()
    assert [line.split(" · ")[0] for line in turns] == ["turn 1/30", "turn 2/30", "turn 3/30"]
    assert "3 queries, 0 in flight" in turns[2]
    assert re.fullmatch(r"run run_\w+ · 6 model calls, 0 tokens, .*", told)
    assert run("proof", "verify").exit_code == 0


def test_in_json_every_event_is_a_line_and_the_last_is_the_answer(folder: Path) -> None:
    *events, completion = lines(run(*by("birds", "--json")))

    assert {"rlm.iteration", "rlm.cell", "rlm.queries", "rlm.spent", "call.settled"} < {each["type"] for each in events}
    assert (completion["type"], completion["response"]) == ("rlm.completion", "0 is none. 1 is none. 2 is none.")
    most = max((each["in_flight"] for each in events if each["type"] == "rlm.queries"), default=0)
    assert most == 3


def test_the_code_is_shown_to_whoever_wants_to_see_it(folder: Path) -> None:
    assert "  │ print(len(context))" in run(*by("birds", "--code")).stderr.splitlines()


def test_what_is_piped_in_is_the_context_also_when_it_is_taken_up(folder: Path) -> None:
    options = ("-m", "scripted:drafts.json", "--max-iterations", "1")
    piped = run("rlm", "ask", *options, "Well?", text="some words\n")
    taken_up = run("rlm", "resume", run_of(piped.stderr), "--context", "-", *options, text="some words\n")
    another = run("rlm", "resume", run_of(piped.stderr), "--context", "-", *options, text="other words\n")

    assert f"handrail rlm resume {run_of(piped.stderr)} --context - -m" in piped.stderr
    assert "limit of 1 iterations" in taken_up.stderr
    assert "was begun with another context" in another.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ask", "Well?"), "nothing was piped in"),
        (("ask", "--context", "-", "--context", "hay.txt", "Well?"), "stdin is a separate context"),
        (("ask", "--context", "hay.txt", "-m", "opnai:x", "Well?"), "did you mean 'openai'?"),
        (("ask", "--context", "hay.txt", "--report", "none/page.html", *WITH, "Well?"), "cannot write the page"),
        (
            ("ask", "--context", "hay.txt", "-m", "scripted:birds.json", "--tools", "none.py", "Well?"),
            "there is no such file",
        ),
    ],
)
def test_an_unavailable_part_is_one_line_and_nothing_is_asked(
    folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = run("rlm", *arguments)

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert said in result.stderr
    assert not (folder / ".handrail" / "journal.db").exists()


# ── a person's word ──────────────────────────────────────────────────────────────────────


def test_where_nobody_can_be_asked_the_run_waits_at_the_call_and_goes_on_there_once_it_is_allowed(folder: Path) -> None:
    paused = run(*by("pay"))
    (asked,) = lines(run("confirm", "list", "--json"))
    still = again("pay", run_of(paused.stderr))
    (listed,) = lines(run("proof", "list", "--json"))
    run("confirm", "allow", asked["request"], "--by", "ada")
    done, twice = (again("pay", run_of(paused.stderr)) for _ in range(2))

    for each in (paused, still):
        assert (each.exit_code, each.stdout) == (1, "")
        assert f"pay waits for approval. Allow it with: handrail confirm allow {asked['request']}" in each.stderr
        assert f"Continue with: handrail rlm resume {run_of(paused.stderr)} --context hay.txt -m" in each.stderr
    assert listed["state"] == "waiting"
    assert [(each.exit_code, each.stdout) for each in (done, twice)] == [(0, "paid 5 to ada\n")] * 2
    assert lines_of(folder / "paid.txt") == ["ada 5"]


def test_a_no_that_was_given_meanwhile_is_what_the_code_reads(folder: Path) -> None:
    paused = run(*by("pay"))
    (asked,) = lines(run("confirm", "list", "--json"))
    run("confirm", "deny", asked["request"], "--by", "ada", "--reason", "too much")

    result = again("pay", run_of(paused.stderr))

    assert (result.exit_code, result.stdout, lines_of(folder / "paid.txt")) == (0, "nobody\n", [])


def test_code_cannot_go_on_past_a_call_that_waits(folder: Path) -> None:
    paused = run(*by("sly"))
    (asked,) = lines(run("confirm", "list", "--json"))
    run("confirm", "allow", asked["request"], "--by", "ada")

    assert (again("sly", run_of(paused.stderr)).stdout, lines_of(folder / "paid.txt")) == ("sly\n", ["ada 5"])


def test_a_call_of_a_child_that_waits_has_its_parent_wait_too(folder: Path) -> None:
    paused = run(*by("deep", "--max-depth", "2"))
    (asked,) = lines(run("confirm", "list", "--json"))
    listed = [each["state"] for each in lines(run("proof", "list", "--json"))]
    run("confirm", "allow", asked["request"], "--by", "ada")

    result = again("deep", run_of(paused.stderr), "--max-depth", "2")

    assert f"handrail confirm allow {asked['request']}" in paused.stderr
    assert listed == ["open, 2 unanswered", "waiting"]
    assert (result.exit_code, result.stdout, lines_of(folder / "paid.txt")) == (0, "deep\n", ["ada 5"])


def test_on_a_terminal_the_line_gives_way_to_the_question(folder: Path) -> None:
    code, shown = dialogue(by("pay"), ("Allow it?", "y\n"), TERM="xterm")

    arguments = '  {\n    "to": "ada",\n    "amount": 5\n  }\n'
    asked = f"pay asks to run with these arguments:\n{arguments}Allow it? [y/N/e(dit)/l(ater)] y\n"
    assert (code, lines_of(folder / "paid.txt")) == (0, ["ada 5"])
    assert asked in shown
    assert "turn 2/30" in shown.partition(asked)[2]


def test_later_leaves_the_run_waiting(folder: Path) -> None:
    code, shown = dialogue(by("pay"), ("Allow it?", "l\n"))

    assert (code, lines_of(folder / "paid.txt")) == (1, [])
    assert "handrail confirm allow" in shown


# ── the page ─────────────────────────────────────────────────────────────────────────────


def test_a_run_and_a_trajectory_are_pages(folder: Path) -> None:
    explored = run_of(run(*by("birds", "--log", "logs")).stderr)
    (trajectory,) = (folder / "logs").iterdir()

    of_run = run("rlm", "report", explored[:20], "-o", "page.html")
    (of_log,) = lines(run("rlm", "report", str(trajectory), "--json"))

    assert of_run.stdout == f"the page of {explored} is written to page.html\n"
    assert "Well?" in (folder / "page.html").read_text()
    assert (of_log["run"], "Well?" in of_log["page"]) == (str(trajectory), True)


def test_what_is_no_run_of_this_kind_has_no_page(folder: Path) -> None:
    plain = run_of(run("ask", "-m", "scripted:script.toml", "hello").stderr)
    (folder / "bad.jsonl").write_text("{bad")

    results = [run("rlm", "report", each) for each in (plain, "bad.jsonl", "none.jsonl", "run_0")]

    assert [(each.exit_code, each.stdout, each.stderr.count("\n")) for each in results] == [(1, "", 1)] * 4
    assert f"handrail proof show {plain}" in results[0].stderr
    assert "is not a trajectory" in results[1].stderr


# ── taken up ─────────────────────────────────────────────────────────────────────────────


def test_a_limit_leaves_the_draft_and_says_how_to_go_on(folder: Path) -> None:
    result = run(*by("drafts", "--max-iterations", "2", "--report", "page.html", "--log", "logs"))

    assert (result.exit_code, result.stdout) == (1, "a draft\n")
    assert "  its code ended with: error; the model is told" in result.stderr.splitlines()
    assert any(line.startswith("the last word") for line in result.stderr.splitlines())
    assert "Only a partial answer: the run reached its limit of 2 iterations" in result.stderr
    assert "Continue, with a larger limit: handrail rlm resume run_" in result.stderr
    assert "--max-iterations 2" in result.stderr
    assert "<html" in (folder / "page.html").read_text()
    assert len(list((folder / "logs").glob("*.jsonl"))) == 1


def test_a_run_that_has_its_answer_gives_it_again_without_its_context(folder: Path) -> None:
    first = run(*by("birds"))

    result = run("rlm", "resume", run_of(first.stderr), "--report", "page.html")

    assert (result.exit_code, result.stdout) == (0, first.stdout)
    assert "has already ended with this answer:" in result.stderr
    assert "<html" in (folder / "page.html").read_text()


def test_a_run_is_found_by_its_beginning_and_listed_without_those_that_it_began(folder: Path) -> None:
    told = run(*by("birds")).stderr
    short = run_of(told)[:20]

    listed, everything = run("proof", "list"), lines(run("proof", "list", "--all", "--json"))

    assert run("rlm", "resume", short).exit_code == run("proof", "show", short).exit_code == 0
    assert (len(listed.stdout.splitlines()), len(everything)) == (2, 4)
    assert listed.stderr == "3 runs that these began are left out; --all lists them.\n"


def test_each_kind_of_run_is_taken_up_by_its_own_command(folder: Path) -> None:
    plain = run_of(run("ask", "-m", "scripted:script.toml", "hello").stderr)
    explored = run_of(run(*by("pay")).stderr)

    wrong, other = run("rlm", "resume", plain), run("resume", explored, "-m", "scripted:pay.json")

    assert (wrong.exit_code, wrong.stderr.count("\n"), other.exit_code, other.stderr.count("\n")) == (1, 1, 1, 1)
    assert f"resume it with: handrail resume {plain}" in wrong.stderr
    assert f"resume it with: handrail rlm resume {explored} --context" in other.stderr


def test_a_run_that_could_not_be_taken_up_stands_as_it_stood(folder: Path) -> None:
    paused = run_of(run(*by("pay")).stderr)
    (folder / "other.txt").write_text("other words")

    another = run("rlm", "resume", paused, "--context", "other.txt", "-m", "scripted:pay.json", *WITH)
    none = run("rlm", "resume", paused, "-m", "scripted:pay.json", *WITH)

    assert "was begun with another context" in another.stderr
    assert "give it again to continue" in none.stderr
    assert [each["state"] for each in lines(run("proof", "list", "--json"))] == ["waiting"]


def test_a_payment_under_way_when_the_program_was_killed_is_not_made_again(folder: Path) -> None:
    told = cut_off(signal.SIGKILL)
    (left,) = lines(run("proof", "list", "--json"))

    result = again("pay", left["run"], "--yes")

    assert "turn 1/30" in told
    assert (result.exit_code, result.stdout) == (0, "nobody\n")
    assert lines_of(folder / "paid.txt") == ["ada 5"]
    assert run("proof", "verify").exit_code == 0


def test_ctrl_c_says_how_to_take_the_run_up(folder: Path) -> None:
    told = cut_off(signal.SIGINT)

    assert "Interrupted; resume it with: handrail rlm resume run_" in told
    assert "turn 2/30" in again("pay", run_of(told), "--yes").stderr
    assert lines_of(folder / "paid.txt") == ["ada 5"]


def cut_off(how: signal.Signals) -> str:
    """`handrail rlm ask`, ended by a signal while its code pays."""
    with subprocess.Popen(
        command(*by("pay", "--yes")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(HOLD="pay"),
    ) as process:
        assert process.stderr is not None
        told = ""
        while "under way" not in told:
            line = process.stderr.readline()
            assert line, f"it ended before: {told}"
            told += line
        process.send_signal(how)
        _, rest = process.communicate()
    return told + rest
