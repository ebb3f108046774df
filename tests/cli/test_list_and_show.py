"""`handrail proof list` and `handrail proof show`."""

from __future__ import annotations

import json
import re

from inline_snapshot import snapshot

from handrail import Context, Executor, ToolCall, ToolResult
from handrail.core.events import CallIntended, CallSettled
from handrail.journal.journal import SqliteJournal
from tests.cli.journal_fixtures import START, Journal, lines, make, run


def test_the_list_says_what_came_of_each_run(journal: Journal) -> None:
    assert run("proof", "list", "--utc").stdout == snapshot("""\
RUN            STARTED                  CALLS  FAILED  IN DOUBT  WAITING  STATE
run_sums       2023-11-14 22:13:21 UTC      4       2         -        -  done
run_payments   2023-11-14 22:13:22 UTC      -       -         -        2  waiting
run_confirmed  2023-11-14 22:13:23 UTC      2       1         -        -  done
""")


def test_the_list_in_json_is_one_run_a_line(journal: Journal) -> None:
    listed = lines(run("proof", "list", "--json"))

    assert [(each["run"], each["calls"], each["waiting"]) for each in listed] == [
        ("run_sums", 4, 0),
        ("run_payments", 0, 2),
        ("run_confirmed", 2, 0),
    ]


def test_only_the_last_runs_are_listed_when_asked_so(journal: Journal) -> None:
    assert [each["run"] for each in lines(run("proof", "list", "--last", "1", "--json"))] == ["run_confirmed"]


def test_an_empty_journal_has_an_empty_answer(journal: Journal) -> None:
    empty = make(journal.path.with_name("empty.db"))

    result = run("--journal", str(empty), "proof", "list")

    assert (result.exit_code, result.stdout) == (0, "")


def test_a_run_is_shown_as_its_calls_with_what_they_did(journal: Journal) -> None:
    shown = run("proof", "show", "run_s", "--utc").stdout

    assert re.sub("sha256:[0-9a-f]+", "sha256:…", shown) == snapshot("""\
run run_sums
for local, with the tools sha256:…
began 2023-11-14 22:13:21 UTC, last entry 2023-11-14 22:13:21 UTC
4 calls answered, 2 not ok; state: done

TIME      CALL         TOOL      ARGUMENTS                                 OUTCOME       TOOK  CONFIRMED BY
22:13:21  call_first   add       a=1 b=2                                   ok            0 µs  -
22:13:21  call_second  add       a=3 b=4                                   ok            0 µs  -
22:13:21  call_bad     fail      why="\\u001b[2J\\u202egpj.exe\\u200b\\u0007"  failed        0 µs  -
22:13:21  call_none    subtract  a=3 b=4                                   unknown_tool  0 µs  -
""")


def test_a_run_shows_who_confirmed_and_who_denied(journal: Journal) -> None:
    shown = run("proof", "show", "run_confirmed").stdout

    rows = [line.split() for line in shown.splitlines() if "call_" in line]
    assert [(row[1], row[5], row[-1]) for row in rows] == [("call_yes", "ok", "ada"), ("call_no", "denied", "bob")]


def test_what_waits_is_in_the_timeline(journal: Journal) -> None:
    shown = run("proof", "show", "run_payments").stdout

    assert [line.split()[1] for line in shown.splitlines() if " waiting " in line] == ["call_pay", "call_odd"]


def test_one_call_is_shown_with_arguments_result_and_the_decision(journal: Journal) -> None:
    assert run("proof", "show", "run_c", "call_y", "--utc").stdout == snapshot("""\
call call_yes
  run      run_confirmed
  entries  15, 16, 17, 18
  tool     pay (has side effects)
  for      local
  key      key_4
  began    2023-11-14 22:13:23 UTC
  allowed  by ada, 2023-11-14 22:13:23 UTC
  ended    2023-11-14 22:13:23 UTC, after 0 µs
  outcome  ok
  arguments
    {
      "to": "eve",
      "amount": 9
    }
  result
    paid 9 to eve
""")


def test_a_denied_call_says_by_whom_and_why(journal: Journal) -> None:
    shown = run("proof", "show", "run_c", "call_no", "--utc").stdout

    assert "denied   by bob, 2023-11-14 22:13:23 UTC: not eve" in shown


def test_a_call_that_waits_shows_what_was_asked(journal: Journal) -> None:
    shown = run("proof", "show", "run_payments", "call_pay").stdout

    assert "nobody answered yet" in shown
    assert '"amount": 5' in shown


def test_a_run_in_full_has_every_entry_with_its_body(journal: Journal) -> None:
    shown = run("proof", "show", "run_sums", "--full").stdout

    assert shown.count("entry ") == 11
    assert '"a": 1' in shown


def test_a_run_in_json_is_one_entry_a_line_as_it_was_recorded(journal: Journal) -> None:
    listed = lines(run("proof", "show", "run_sums", "--json"))

    assert [each["type"] for each in listed][:4] == ["run.started", "tools.offered", "call.intended", "call.settled"]
    assert [each["n"] for each in listed] == list(range(11))


def test_nothing_a_tool_said_can_steer_the_terminal(journal: Journal) -> None:
    ways = [
        ("proof", "show", "run_sums"),
        ("proof", "show", "run_sums", "call_bad"),
        ("proof", "show", "run_sums", "--full"),
        ("proof", "show", "run_sums", "--json"),
        ("confirm", "list"),
        ("proof", "prove", "call_bad"),
    ]
    for way in ways:
        shown = run(*way).stdout
        assert not {"\x1b", "\x07", "\u202e", "\u200b"} & set(shown), way
        assert "gpj.exe" in shown, way


def test_a_call_that_was_cut_off_is_open_and_one_that_was_amended_says_so(journal: Journal) -> None:
    cut = make(journal.path.with_name("cut.db"), cut_off)

    shown = run("--journal", str(cut), "proof", "show", "run_cut").stdout
    (listed,) = lines(run("--journal", str(cut), "proof", "list", "--json"))

    assert "in_doubt, later ok (a person says)" in shown
    assert " open " in shown
    assert (listed["open"], listed["in_doubt"], listed["state"]) == (1, 0, "open, 1 unanswered")
    assert "known later (person)" in run("--journal", str(cut), "proof", "show", "run_cut", "call_doubt").stdout


async def cut_off(executor: Executor, journal: SqliteJournal) -> None:
    """Two payments of a process that died; a person found out about the first."""
    run = "run_cut"
    for call in ("call_doubt", "call_open"):
        await journal.append(
            CallIntended(
                run=run, at=START, call_id=call, tool="pay", side_effects=True, idempotent=False, key=call, arguments={}
            )
        )
    await journal.append(
        CallSettled(run=run, at=START, call_id="call_doubt", tool="pay", outcome="in_doubt", duration_us=0, ran=True)
    )
    await executor.amend(run, ToolResult("call_doubt", "pay", "it was paid"))


def test_a_run_over_several_days_shows_the_day(journal: Journal) -> None:
    async def twice(executor: Executor, kept: SqliteJournal) -> None:
        for at in (START, START + 86_400_000):
            answer = ToolResult("x", "add", 3)
            await kept.append(
                CallSettled(
                    run="run_long", at=at, call_id=f"call_{at}", tool="add", outcome="ok", duration_us=0, ran=True,
                    result=answer,
                )
            )  # fmt: skip

    long = make(journal.path.with_name("long.db"), twice)

    assert "2023-11-15 22:13:20 UTC" in run("--journal", str(long), "proof", "show", "run_long", "--utc").stdout


def test_an_unknown_or_ambiguous_run_is_one_line_and_exit_code_1(journal: Journal) -> None:
    unknown, ambiguous = run("proof", "show", "nothing"), run("proof", "show", "run_")

    assert (unknown.exit_code, unknown.stdout, unknown.stderr.count("\n")) == (1, "", 1)
    assert (ambiguous.exit_code, ambiguous.stdout, ambiguous.stderr.count("\n")) == (1, "", 1)
    assert "run_sums" in unknown.stderr


def test_wrong_usage_is_exit_code_2(journal: Journal) -> None:
    assert run("proof", "show").exit_code == 2
    assert run("proof", "paint").exit_code == 2
    assert run("proof", "list", "--last", "0").exit_code == 2


def test_erased_arguments_are_shown_as_erased(journal: Journal) -> None:
    run("proof", "erase", "run_sums", "--yes")

    assert "[erased]" in run("proof", "show", "run_sums").stdout
    assert "[erased; its digest is still in the record]" in run("proof", "show", "run_sums", "call_first").stdout
    shown = lines(run("proof", "show", "run_sums", "call_first", "--json"))
    assert [each.get("arguments", each.get("result")) for each in shown] == [None, None]
    assert json.dumps(shown)


def test_a_reused_answer_says_so(journal: Journal) -> None:
    async def again(executor: Executor, kept: SqliteJournal) -> None:
        reused = ToolResult("b", "add", 3, reused_from="a")
        await executor.invoke(ToolCall("a", "add", {"a": 1, "b": 2}), Context(run="run_again"))
        await kept.append(
            CallSettled(
                run="run_again",
                at=START,
                call_id="b",
                tool="add",
                outcome="ok",
                duration_us=0,
                ran=False,
                result=reused,
            )
        )

    path = make(journal.path.with_name("again.db"), again)

    assert "ok, reused" in run("--journal", str(path), "proof", "show", "run_again").stdout
