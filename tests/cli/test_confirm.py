"""`handrail confirm`: a person's word from another process than the one that asked."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from handrail import Context, Executor, Secret, ToolCall, ToolResult, tool
from handrail.cli.confirm.answers import give
from handrail.core.errors import UsageError
from handrail.core.events import ConfirmationRequested
from handrail.journal.auditing import audit
from handrail.journal.journal import SqliteJournal
from tests.cli.journal_fixtures import Journal, add, fail, lines, make, pay, run


def ask_again(journal: Journal, call: ToolCall) -> ToolResult:
    """The program comes back and asks for its call."""

    async def asking() -> ToolResult:
        async with await SqliteJournal.open(journal.path) as kept, Executor([add, pay, fail], journal=kept) as executor:
            return await executor.invoke(call, Context(run="run_payments"))

    return asyncio.run(asking())


@tool(side_effects=True)
def login(user: str, password: Secret) -> str:
    """Log in."""
    raise NotImplementedError


PAYMENT = ToolCall("call_pay", "pay", {"to": "ada", "amount": 5})


@pytest.mark.requirement("hearthnet.confirmation")
def test_an_allowed_call_runs_when_its_program_asks_again(journal: Journal) -> None:
    result = run("confirm", "allow", "confirm_1", "--by", "grace")

    assert (result.exit_code, ask_again(journal, PAYMENT).content) == (0, "paid 5 to ada")
    assert [(each.decision, each.by) for each in journal.answers("run_payments")] == [("allow", "grace")]
    assert audit(journal.path).ok


@pytest.mark.requirement("hearthnet.confirmation")
def test_a_denied_call_does_not_run_and_the_model_reads_why(journal: Journal) -> None:
    assert run("confirm", "deny", "confirm_1", "--by", "grace", "--reason", "wrong account").exit_code == 0

    answer = ask_again(journal, PAYMENT)
    assert answer.outcome == "denied"
    assert "wrong account" in answer.text


async def test_a_running_program_takes_the_decision_from_the_other_process(journal: Journal) -> None:
    async with await SqliteJournal.open(journal.path) as kept, Executor([add, pay, fail], journal=kept) as executor:
        context = Context(run="run_payments")
        before = await executor.invoke(PAYMENT, context)
        await asyncio.to_thread(run, "confirm", "allow", "confirm_1", "--by", "grace")
        after = await executor.invoke(PAYMENT, context)

    assert (before.outcome, after.content) == ("needs_confirmation", "paid 5 to ada")


def test_exactly_what_will_run_is_shown_before_the_approval(journal: Journal) -> None:
    result = run("confirm", "allow", "confirm_2", "--by", "grace")

    assert r'"to": "\u001b[2J\u202egpj.exe\u200b\u0007"' in result.stderr
    assert '"amount": 7' in result.stderr
    assert result.stdout == "allowed by grace; it runs when its program asks for it again\n"


def test_the_login_name_is_the_default(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "hopper")

    run("confirm", "allow", "confirm_1")

    assert [each.by for each in journal.answers("run_payments")] == ["hopper"]


def test_an_answered_request_is_refused_with_what_still_waits(journal: Journal) -> None:
    run("confirm", "allow", "confirm_1", "--by", "grace")

    again = run("confirm", "deny", "confirm_1", "--by", "eve")

    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr == "handrail: no request 'confirm_1' waits for an answer; these do: 'confirm_2'\n"
    assert len(journal.answers("run_payments")) == 1


def test_an_unknown_request_says_that_nothing_waits(journal: Journal) -> None:
    for request in ("confirm_1", "confirm_2"):
        run("confirm", "deny", request, "--by", "grace")

    assert run("confirm", "allow", "confirm_7").stderr.endswith("waits for an answer; nothing does\n")


def test_a_beginning_that_several_requests_share_is_refused(journal: Journal) -> None:
    result = run("confirm", "allow", "confirm_", "--by", "grace")

    assert result.exit_code == 1
    assert journal.answers("run_payments") == []


def test_the_list_shows_what_waits_and_then_nothing(journal: Journal) -> None:
    assert [each["request"] for each in lines(run("confirm", "list", "--json"))] == ["confirm_1", "confirm_2"]
    assert 'to="ada" amount=5' in run("confirm", "list").stdout
    for request in ("confirm_1", "confirm_2"):
        run("confirm", "deny", request, "--by", "grace")

    result = run("confirm", "list")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No call waits for approval.\n")


def test_an_answer_in_json_is_the_entry_that_was_written(journal: Journal) -> None:
    (said,) = lines(run("confirm", "deny", "confirm_1", "--by", "grace", "--json"))

    assert (said["type"], said["decision"], said["by"]) == ("confirmation.answered", "deny", "grace")


def test_what_was_erased_cannot_be_allowed_but_denied(journal: Journal) -> None:
    run("proof", "erase", "run_payments", "--yes")

    allowed = run("confirm", "allow", "confirm_1", "--by", "grace")

    assert allowed.exit_code == 1
    assert "were erased" in allowed.stderr
    assert run("confirm", "deny", "confirm_1", "--by", "grace").exit_code == 0


def test_arguments_that_were_changed_in_the_record_cannot_be_allowed(journal: Journal) -> None:
    journal.change(
        "UPDATE entry SET data = ? WHERE type = 'confirmation.requested' AND call = 'call_pay'",
        b'{"arguments":{"to":"ada","amount":1},"nonce":"n"}',
    )

    result = run("confirm", "allow", "confirm_1", "--by", "grace")

    assert result.exit_code == 1
    assert "is not what would run" in result.stderr
    assert journal.answers("run_payments") == []


def test_a_secret_is_masked_and_the_call_can_still_be_allowed(journal: Journal) -> None:
    async def log_in(executor: Executor, kept: SqliteJournal) -> None:
        async with Executor([login], journal=kept) as own:
            await own.invoke(ToolCall("call_login", "login", {"user": "ada", "password": "hunter2-hunter2"}))

    path = make(journal.path.with_name("secrets.db"), log_in)
    (question,) = lines(run("--journal", str(path), "confirm", "list", "--json"))

    result = run("--journal", str(path), "confirm", "allow", question["request"], "--by", "grace")

    assert result.exit_code == 0
    assert "hunter2" not in result.output
    assert "Masked fields are declared as secret (password)." in result.stderr


def test_of_two_who_answer_at_once_one_is_told_that_it_came_too_late(journal: Journal) -> None:
    (first, _) = lines(run("confirm", "list", "--json"))
    question = msgspec.convert(first, ConfirmationRequested)
    give(journal.path, question, "allow", "grace")

    with pytest.raises(UsageError, match="somebody else"):
        give(journal.path, question, "deny", "eve")

    assert [each.by for each in journal.answers("run_payments")] == ["grace"]


def test_without_the_journal_s_key_nothing_is_answered_and_no_other_key_is_made(journal: Journal) -> None:
    key = journal.path.with_suffix(".key")
    key.unlink()

    result = run("confirm", "deny", "confirm_1", "--by", "grace")

    assert (result.exit_code, key.exists(), journal.answers("run_payments")) == (1, False, [])
