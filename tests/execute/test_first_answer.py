"""The first answer to a question counts, whoever gives it and in whatever process; the other side is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handrail import Context, Executor, ToolCall, ToolResult, tool
from handrail.core.confirmation import Allow, Confirmation, Decision
from handrail.core.errors import UsageError
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested, Event, Notice
from handrail.core.ports import Approver
from handrail.journal.auditing import audit
from handrail.journal.journal import SqliteJournal
from handrail.journal.person_answers import answer
from handrail.journal.reader import JournalReader
from handrail.testing.journal import MemoryJournal

RUN = Context(run="run_1")
PAYMENT = ToolCall("call_1", "pay", {"amount": 5})


class Bank:
    """A side effect that counts, and whoever asks about it."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.heard: list[Event] = []

        @tool(side_effects=True)
        async def pay(amount: int) -> str:
            """Pay someone."""
            self.paid.append(amount)
            return f"paid {amount}"

        self.tools = [pay]

    async def emit(self, event: Event) -> None:
        self.heard.append(event)

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.heard if isinstance(event, Notice)]


class AtTheTerminal:
    """A person who has been asked and has not answered."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[Confirmation] = asyncio.Queue()
        self.withdrawn: list[str] = []

    async def decide(self, question: Confirmation) -> Decision:
        self.asked.put_nowait(question)
        nothing: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        try:
            return await nothing
        except asyncio.CancelledError:
            self.withdrawn.append(question.request)
            raise


class AnswersTwice:
    """While this person says yes, somebody else has just answered, in another process."""

    def __init__(self, path: Path, decision: str) -> None:
        self._path = path
        self._decision = decision

    async def decide(self, question: Confirmation) -> Decision:
        # The loop stands still meanwhile, so nothing here can have heard of the other answer.
        other = threading.Thread(target=lambda: asyncio.run(say(self._path, self._decision, by="grace")))
        other.start()
        other.join()
        return Allow("ada")


async def say(path: Path, decision: str, by: str) -> None:
    """An answer by another writer of the same file, as `handrail confirm` gives it."""
    with JournalReader(path) as reader:
        (question,) = reader.pending()
    await answer(path, question, "allow" if decision == "allow" else "deny", by=by, reason="not today")


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SqliteJournal]:
    async with await SqliteJournal.open(tmp_path / "journal.db") as made:
        yield made


def answers(path: Path) -> list[tuple[str, str]]:
    with JournalReader(path) as reader:
        return [(each.decision, each.by) for each in reader.events() if isinstance(each, ConfirmationAnswered)]


async def call(bank: Bank, approver: Approver, journal: SqliteJournal) -> ToolResult:
    async with Executor(bank.tools, approver=approver, journal=journal) as executor, asyncio.timeout(30):
        return await executor.invoke(PAYMENT, RUN, bank.emit)


@pytest.mark.parametrize(("decision", "outcome", "paid"), [("deny", "denied", []), ("allow", "ok", [5])])
async def test_an_answer_from_another_process_ends_the_question_that_waits_here(
    journal: SqliteJournal, decision: str, outcome: str, paid: list[int]
) -> None:
    bank, person = Bank(), AtTheTerminal()

    async def elsewhere() -> None:
        await person.asked.get()
        await say(journal.path, decision, by="grace")

    async with asyncio.TaskGroup() as group:
        group.create_task(elsewhere())
        result = await call(bank, person, journal)

    assert (result.outcome, bank.paid, len(person.withdrawn)) == (outcome, paid, 1)
    assert answers(journal.path) == [(decision, "grace")]
    word = "denied" if decision == "deny" else "allowed"
    assert bank.notices == [f"the call to 'pay' was {word} elsewhere, by grace: not today"]
    assert audit(journal.path).ok


@pytest.mark.parametrize(("decision", "outcome", "paid"), [("deny", "denied", []), ("allow", "ok", [5])])
async def test_of_two_answers_at_once_the_first_on_record_counts_and_the_other_person_is_told(
    journal: SqliteJournal, decision: str, outcome: str, paid: list[int]
) -> None:
    bank = Bank()

    result = await call(bank, AnswersTwice(journal.path, decision), journal)

    assert (result.outcome, bank.paid) == (outcome, paid)
    assert answers(journal.path) == [(decision, "grace")]
    (notice,) = bank.notices
    assert "by grace" in notice
    assert "the answer of ada came later and does not count" in notice


async def test_an_answer_after_the_one_here_is_refused_and_names_who_was_first(journal: SqliteJournal) -> None:
    bank = Bank()
    asked: list[ConfirmationRequested] = []

    class Yes:
        async def decide(self, question: Confirmation) -> Decision:
            with JournalReader(journal.path) as reader:
                asked.extend(reader.pending())
            return Allow("ada")

    result = await call(bank, Yes(), journal)
    with pytest.raises(UsageError, match="'ada' allowed it"):
        await answer(journal.path, asked[0], "deny", by="grace")

    assert (result.outcome, bank.paid, answers(journal.path)) == ("ok", [5], [("allow", "ada")])


@pytest.mark.parametrize("kept", ["memory", "none"])
async def test_an_answer_given_in_the_same_process_ends_the_question_that_waits(kept: str) -> None:
    bank, person = Bank(), AtTheTerminal()
    made = MemoryJournal() if kept == "memory" else None
    async with Executor(bank.tools, approver=person, journal=made) as executor, asyncio.timeout(30):
        waiting = asyncio.create_task(executor.invoke(PAYMENT, RUN, bank.emit))
        question = await person.asked.get()
        await executor.answer("run_1", question.request, allow=False, by="grace")
        result = await waiting
        with pytest.raises(UsageError):
            await executor.answer("run_1", question.request, allow=True, by="ada")

    assert (result.outcome, bank.paid, len(person.withdrawn)) == ("denied", [], 1)


async def test_many_answers_to_one_question_leave_one_on_record(journal: SqliteJournal) -> None:
    bank = Bank()
    async with Executor(bank.tools, journal=journal) as executor:
        await executor.invoke(PAYMENT, RUN)
    (request,) = [each for each in await journal.history("run_1") if isinstance(each, ConfirmationRequested)]
    other = await SqliteJournal.open(journal.path)
    given = [request.answered("deny" if number % 2 else "allow", at=number, by=str(number)) for number in range(20)]
    try:
        async with asyncio.TaskGroup() as group:
            counted = [
                group.create_task((other if number % 3 else journal).answer(each)) for number, each in enumerate(given)
            ]
    finally:
        await other.aclose()

    assert len({task.result() for task in counted}) == 1
    assert len(answers(journal.path)) == 1


async def test_a_cancelled_call_leaves_its_question_open_for_a_later_answer(journal: SqliteJournal) -> None:
    bank, person = Bank(), AtTheTerminal()
    async with Executor(bank.tools, approver=person, journal=journal) as executor, asyncio.timeout(30):
        waiting = asyncio.create_task(executor.invoke(PAYMENT, RUN))
        await person.asked.get()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    assert (answers(journal.path), bank.paid) == ([], [])


async def test_a_call_that_is_asked_again_finds_the_answer_of_another_process(journal: SqliteJournal) -> None:
    bank = Bank()
    async with Executor(bank.tools, journal=journal) as executor:
        first = await executor.invoke(PAYMENT, RUN)
        before = await executor.invoke(PAYMENT, RUN)
        await say(journal.path, "allow", by="grace")
        after = await executor.invoke(PAYMENT, RUN)

    assert [each.outcome for each in (first, before, after)] == ["needs_confirmation", "needs_confirmation", "ok"]
    assert (bank.paid, answers(journal.path)) == ([5], [("allow", "grace")])
