"""`handrail confirm settle`: a person says what became of a call that was cut off."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from handrail import Context, Conversation, Executor, Policy, Runner, tool
from handrail.core.calls import ToolResult
from handrail.core.errors import JournalError, UsageError
from handrail.core.events import CallAmended, CallSettled, Recorded
from handrail.core.messages import ResultMessage
from handrail.journal.journal import SqliteJournal
from handrail.journal.person_answers import settle
from handrail.journal.reader import history
from handrail.run.history import conversation_of
from handrail.testing.model import ScriptedModel, call, text
from tests.cli.journal_fixtures import lines, run

RUN = Context(run="run_cut")
FREE = Policy(confirm_side_effects=False)
PAID: list[int] = []


@tool(side_effects=True)
async def pay(amount: int) -> str:
    """Pay something."""
    PAID.append(amount)
    return f"paid {amount}"


class CutOff(SqliteJournal):
    """A journal that takes no answer to a call, as that of a program that dies before there is one."""

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        if isinstance(event, CallSettled):
            raise JournalError("cut off")
        await super().append(event, durable=durable)

    def append_at_once(self, event: Recorded, *, durable: bool = False) -> bool:
        return not isinstance(event, CallSettled) and super().append_at_once(event, durable=durable)


async def cut_off(path: Path) -> None:
    async with await CutOff.open(path) as journal, Executor([pay], policy=FREE, journal=journal) as executor:
        model = ScriptedModel([call("pay", "call_pay", amount=5)])
        with pytest.raises(JournalError):
            await Runner(model, executor).run(Conversation().say("pay"), RUN)


async def taken_up(path: Path) -> Conversation:
    async with await SqliteJournal.open(path) as journal, Executor([pay], policy=FREE, journal=journal) as executor:
        conversation = conversation_of(await journal.history("run_cut"))
        return await Runner(ScriptedModel([text("done")]), executor).run(conversation, RUN)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HANDRAIL_JOURNAL", raising=False)
    PAID.clear()
    path = tmp_path / ".handrail" / "journal.db"
    path.parent.mkdir()
    asyncio.run(cut_off(path))
    return path


@pytest.mark.parametrize(
    ("said", "outcome", "content"),
    [(("--ran", "paid 5"), "ok", "paid 5"), (("--ran", '{"paid": 5}'), "ok", {"paid": 5}), (("--not-run",), "", "")],
)
def test_what_a_person_found_out_is_the_result_when_the_run_goes_on(
    journal: Path, said: tuple[str, ...], outcome: str, content: object
) -> None:
    settled = run("confirm", "settle", "run_cut", "call_pay", *said, "--by", "ada")
    conversation = asyncio.run(taken_up(journal))

    (result,) = (message.result for message in conversation.messages if isinstance(message, ResultMessage))
    assert (settled.exit_code, conversation.text, PAID) == (0, "done", [5])
    if outcome:
        assert (result.outcome, result.content) == (outcome, content)
    else:
        assert (result.outcome, "may be called again" in result.text) == ("cancelled", True)
    assert run("proof", "verify").exit_code == 0
    assert conversation_of(history(journal, "run_cut")) == conversation


def test_without_a_decision_the_call_is_in_doubt(journal: Path) -> None:
    conversation = asyncio.run(taken_up(journal))

    (result,) = (message.result for message in conversation.messages if isinstance(message, ResultMessage))
    assert (result.outcome, PAID) == ("in_doubt", [5])


def test_a_decision_is_made_once_and_in_json_it_is_the_entry(journal: Path) -> None:
    (said,) = lines(run("confirm", "settle", "run_cut", "call_pay", "--ran", "paid", "--by", "ada", "--json"))
    again = run("confirm", "settle", "run_cut", "call_pay", "--not-run")

    (event,) = (event for event in history(journal, "run_cut") if isinstance(event, CallAmended))
    assert (said["call_id"], said["outcome"], event.why) == ("call_pay", "ok", "person")
    assert (again.exit_code, "there is no call in doubt" in again.stderr) == (1, True)


def test_of_two_who_settle_a_call_at_once_only_one_is_believed(journal: Path) -> None:
    paid, not_paid = ToolResult("call_pay", "pay", "paid"), ToolResult("call_pay", "pay", "no", "cancelled")
    asyncio.run(settle(journal, "run_cut", "pay", paid))

    with pytest.raises(UsageError, match="not in doubt"):
        asyncio.run(settle(journal, "run_cut", "pay", not_paid))


def test_a_call_that_a_person_settled_is_answered_in_the_list(journal: Path) -> None:
    (before,) = lines(run("proof", "list", "--json"))
    run("confirm", "settle", "run_cut", "call_pay", "--not-run", "--by", "ada")
    (after,) = lines(run("proof", "list", "--json"))

    assert (before["calls"], before["errors"], before["open"], before["state"]) == (0, 0, 1, "open, 1 unanswered")
    assert (after["calls"], after["errors"], after["open"], after["state"]) == (1, 1, 0, "open")


@pytest.mark.parametrize("words", [(), ("--ran", "x", "--not-run")])
def test_either_it_ran_or_not(journal: Path, words: tuple[str, ...]) -> None:
    result = run("confirm", "settle", "run_cut", "call_pay", *words)

    assert (result.exit_code, "either --ran RESULT or --not-run" in result.stderr) == (1, True)


def test_nobody_settles_a_call_of_a_run_that_is_being_worked_on(journal: Path) -> None:
    async def while_working() -> int:
        async with await SqliteJournal.open(journal) as opened:
            lease = await opened.lease("run_cut")
            try:
                done = await asyncio.to_thread(run, "confirm", "settle", "run_cut", "call_pay", "--ran", "x")
                return done.exit_code
            finally:
                lease.release()

    assert asyncio.run(while_working()) == 1
