"""A side effect that was begun is found by every later call that means the same: after a crash, in another session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from handrail import Context, Executor, Principal, ToolCall, ToolResult, tool
from handrail.confirm import Confirmation, Decision, Defer
from handrail.core.context import RepeatingCaller
from handrail.errors import InDoubt, InvalidDefinition
from handrail.execute.policy import Policy
from handrail.journal import JournalReader, SqliteJournal, answer
from handrail.journal.person_answers import settle
from handrail.journal.reader import erase
from handrail.testing import FixedClock
from tests.polling import until, until_still

QUIET = Policy(confirm_side_effects=False)


class Bank:
    """A service outside: what was paid stays paid, whatever becomes of the processes here."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []
        self.clock = FixedClock()
        self.began: dict[str, int] = {}
        """When the client of each run began its conversation."""
        self.called = asyncio.Event()
        self.cut_off = False
        """Whether the process dies after the payment, before anybody hears of it."""

    def tools(self, **options: Any) -> list[Any]:
        @tool(side_effects=True, **options)
        async def pay(to: str, amount: int) -> str:
            self.paid.append((to, amount))
            self.called.set()
            if self.cut_off:
                await asyncio.get_running_loop().create_future()
            return f"paid {amount} to {to} ({len(self.paid)})"

        return [pay]


@asynccontextmanager
async def process(
    path: Path, bank: Bank, *, approver: Any = None, policy: Policy = QUIET, **options: Any
) -> AsyncIterator[partial[Coroutine[Any, Any, ToolResult]]]:
    """A program with a journal. It leaves its runs as a killed one does: without a last word."""
    async with await SqliteJournal.open(path) as journal:
        bank.clock.advance(1)
        executor = Executor(bank.tools(**options), journal=journal, policy=policy, approver=approver, clock=bank.clock)
        yield partial(pay, executor, bank)
        executor.runs.let_go_all()
        await executor.aclose()


async def pay(
    executor: Executor, bank: Bank, run: str, call: str = "call_1", *, may_repeat: bool = False, **changes: Any
) -> ToolResult:
    """A call; `may_repeat` if a client makes it whose conversation began with this run."""
    arguments = {"to": "ada", "amount": 5, **changes.pop("arguments", {})}
    principal = changes.get("principal", Principal())
    if may_repeat:
        since = bank.began.setdefault(run, bank.clock.now())
        resends = changes.pop("may_resend", False)
        changes["repeating"] = RepeatingCaller(principal.id, since, changes.pop("request_key", ""), may_resend=resends)
    context = Context(run=run, **changes)
    return await executor.invoke(ToolCall(call, "pay", arguments), context)


async def killed_while_paying(path: Path, bank: Bank, **options: Any) -> None:
    """The payment is made, and the process is gone before it can say so."""
    bank.cut_off = True
    journal = await SqliteJournal.open(path)
    executor = Executor(bank.tools(**options), journal=journal, policy=QUIET, clock=bank.clock)
    call = asyncio.create_task(pay(executor, bank, "run_killed", may_repeat=True))
    await bank.called.wait()
    # What a dead process can no longer do: write. Its lease is dropped by the kernel.
    executor.runs.let_go_all()
    await journal.aclose()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    bank.cut_off = False


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.mark.parametrize("may_repeat", [True, False])
async def test_what_was_cut_off_is_in_doubt_for_every_later_equal_call(path: Path, may_repeat: bool) -> None:
    bank = Bank()
    await killed_while_paying(path, bank)
    async with process(path, bank) as later:
        first = await later("run_2", may_repeat=may_repeat)
        again = await later("run_2", "call_2", may_repeat=may_repeat)
        elsewhere = await later("run_3", may_repeat=may_repeat)
    assert [each.outcome for each in (first, again, elsewhere)] == ["in_doubt"] * 3
    assert "handrail confirm settle run_killed call_1" in first.text + again.text
    assert bank.paid == [("ada", 5)]


async def test_other_arguments_another_owner_and_another_tool_are_other_effects(path: Path) -> None:
    bank = Bank()
    await killed_while_paying(path, bank)
    async with process(path, bank) as later:
        more = await later("run_2", may_repeat=True, arguments={"amount": 6})
        other = await later("run_3", may_repeat=True, principal=Principal("bob"))
    assert (more.outcome, other.outcome) == ("ok", "ok")


async def test_reconcile_is_asked_before_anybody_is_in_doubt(path: Path) -> None:
    bank = Bank()

    async def look(invocation: Any) -> str | None:
        return "the bank says: paid" if bank.paid else None

    await killed_while_paying(path, bank, reconcile=look)
    async with process(path, bank, reconcile=look) as later:
        result = await later("run_2", may_repeat=True)
    assert (result.outcome, result.text) == ("ok", "the bank says: paid")
    assert bank.paid == [("ada", 5)]


async def test_an_effect_that_reconcile_denies_runs_once_under_its_first_call(path: Path) -> None:
    bank = Bank()
    await killed_while_paying(path, bank)
    bank.paid.clear()  # the bank lost it

    async def look(invocation: Any) -> str | None:
        return "paid" if bank.paid else None

    async with process(path, bank, reconcile=look) as later:
        first = await later("run_2", may_repeat=True)
        bank.clock.advance(1)
        second = await later("run_3", may_repeat=True)
    assert (first.text, second.text) == ("paid 5 to ada (1)", "paid 5 to ada (1)")
    assert bank.paid == [("ada", 5)]


async def test_a_restarted_client_gets_the_first_result_and_a_note(path: Path) -> None:
    bank = Bank()
    async with process(path, bank) as first:
        done = await first("run_1", may_repeat=True)
    async with process(path, bank) as second:
        repeated = await second("run_2", may_repeat=True)
    assert repeated.text == done.text == "paid 5 to ada (1)"
    assert "not run again" in repeated.warnings[-1] and "run run_1, call call_1" in repeated.warnings[-1]
    assert bank.paid == [("ada", 5)]


async def test_who_wants_it_again_in_the_same_session_is_asked(path: Path) -> None:
    bank, asked = Bank(), list[Confirmation]()

    async def approver(question: Confirmation) -> bool:
        asked.append(question)
        return True

    async with process(path, bank) as first:
        await first("run_1", may_repeat=True)
    async with process(path, bank, approver=approver) as second:
        await second("run_2", "call_1", may_repeat=True)
        assert not asked
        again = await second("run_2", "call_2", may_repeat=True)
    assert "again, on purpose" in asked[0].why
    assert again.text == "paid 5 to ada (2)"


@pytest.mark.parametrize("cut_off", [False, True])
async def test_an_effect_whose_record_was_erased_is_not_made_again_unasked(path: Path, cut_off: bool) -> None:
    bank, asked = Bank(), list[Confirmation]()

    async def approver(question: Confirmation) -> bool:
        asked.append(question)
        return len(asked) > 1

    if cut_off:
        await killed_while_paying(path, bank)
    else:
        async with process(path, bank) as first:
            await first("run_killed", may_repeat=True)
    assert erase(path, run="run_killed") > 0
    async with process(path, bank, approver=approver) as second:
        repeated = await second("run_2", "call_1", may_repeat=True)
        wanted = await second("run_2", "call_2", may_repeat=True)
    if cut_off:
        assert (repeated.outcome, wanted.outcome, asked) == ("in_doubt", "in_doubt", [])
    else:
        assert (repeated.outcome, wanted.outcome) == ("denied", "ok")
        assert "its result was erased" in asked[0].why
    assert len(bank.paid) == 2 - cut_off


async def test_inside_one_run_equal_calls_are_two_wishes(path: Path) -> None:
    bank = Bank()
    async with process(path, bank) as executor:
        await executor("run_1", "call_1", may_repeat=True)
        await executor("run_1", "call_2", may_repeat=True)
        await asyncio.gather(
            *(executor("run_1", f"call_{n}", arguments={"to": "eve", "amount": 1}) for n in range(3, 6))
        )
    assert bank.paid == [("ada", 5)] * 2 + [("eve", 1)] * 3


async def test_a_session_of_ours_that_ended_in_order_does_not_stand_in_for_the_next(path: Path) -> None:
    bank = Bank()
    async with process(path, bank) as first:
        await first("run_1")
        await first.args[0].finish("run_1")
    async with process(path, bank) as second:
        result = await second("run_2")
    assert result.text == "paid 5 to ada (2)" and not result.warnings


async def test_a_session_that_was_cut_off_after_the_effect_does(path: Path) -> None:
    bank = Bank()
    async with process(path, bank) as first:
        await first("run_1")
    async with process(path, bank) as second:
        result = await second("run_2")
    assert result.text == "paid 5 to ada (1)" and "not run again" in result.warnings[-1]


async def test_after_the_window_an_equal_call_is_a_new_wish(path: Path) -> None:
    bank = Bank()
    async with process(path, bank, repeat_window=60.0) as first:
        await first("run_1", may_repeat=True)
    bank.clock.advance(61)
    async with process(path, bank, repeat_window=60.0) as second:
        result = await second("run_2", may_repeat=True)
    assert result.text == "paid 5 to ada (2)"


async def test_a_business_key_says_which_effect_it_is(path: Path) -> None:
    bank = Bank()
    async with process(path, bank, effect_key=("to",)) as first:
        await first("run_1", may_repeat=True)
    async with process(path, bank, effect_key=("to",)) as second:
        other_amount = await second("run_2", may_repeat=True, arguments={"amount": 500})
    assert other_amount.text == "paid 5 to ada (1)"
    with pytest.raises(InvalidDefinition, match=r"'order'.*to, amount"):
        bank.tools(effect_key=("order",))


async def test_a_call_that_waits_does_not_run_for_one_with_other_arguments_and_its_business_key(path: Path) -> None:
    bank, policy = Bank(), Policy()
    async with process(path, bank, policy=policy, effect_key=("to",)) as first:
        await first("run_1", may_repeat=True, arguments={"amount": 5000})
    with JournalReader(path) as reader:
        (question,) = reader.pending()
    async with process(path, bank, effect_key=("to",)) as corrected:
        result = await corrected("run_2", may_repeat=True, arguments={"amount": 50})
    assert result.text == "paid 50 to ada (1)"
    await answer(path, question, "allow", by="ada")
    async with process(path, bank, policy=policy, effect_key=("to",)) as later:
        other = await later("run_3", may_repeat=True, arguments={"amount": 51})
    assert "paid 50 to ada" in other.text  # that order was paid a moment ago
    assert bank.paid == [("ada", 50)]


async def test_calls_without_their_business_key_are_told_apart_by_all_of_their_arguments(path: Path) -> None:
    paid = list[str]()

    @tool(side_effects=True, effect_key=("order",))
    async def pay(to: str, order: str | None = None) -> str:
        paid.append(to)
        return f"paid {to}"

    async def paid_in(run: str, **arguments: Any) -> str:
        async with await SqliteJournal.open(path) as journal:
            executor = Executor([pay], journal=journal, policy=QUIET)
            context = Context(run=run, repeating=RepeatingCaller("ada", 2**60))
            result = await executor.invoke(ToolCall("call_1", "pay", arguments), context)
            executor.runs.let_go_all()
            return result.text

    assert await paid_in("run_1", to="ada") == "paid ada"
    assert await paid_in("run_2", to="bob", order=None) == "paid bob"
    assert await paid_in("run_3", to="ada") == "paid ada"
    assert await paid_in("run_4", to="cid", order="7") == "paid cid"
    assert await paid_in("run_5", to="dan", order="7") == "paid cid"
    assert paid == ["ada", "bob", "cid"]


async def test_a_request_key_is_refused_for_other_arguments(path: Path) -> None:
    bank = Bank()
    async with process(path, bank) as first:
        await first("run_1", may_repeat=True, request_key="a")
    async with process(path, bank) as second:
        other = await second("run_2", may_repeat=True, request_key="a", arguments={"to": "bob"})
    assert (other.error and other.error.code, "used before" in other.text) == ("duplicate_id", True)
    assert bank.paid == [("ada", 5)]


async def test_an_effect_whose_result_cannot_be_used_is_not_made_again_after_a_restart(path: Path) -> None:
    paid = list[str]()

    @tool(side_effects=True, output_schema={"type": "integer"})
    async def pay(to: str) -> Any:
        paid.append(to)
        return "paid"

    for run in ("run_1", "run_2"):
        async with await SqliteJournal.open(path) as journal:
            executor = Executor([pay], journal=journal, policy=QUIET)
            context = Context(run=run, repeating=RepeatingCaller("ada", 2**60))
            result = await executor.invoke(ToolCall("call_1", "pay", {"to": "ada"}), context)
            executor.runs.let_go_all()
    assert "has done what it was asked" in result.text and "not run again" in result.warnings[-1]
    assert paid == ["ada"]


@pytest.mark.parametrize("told", [False, True])
async def test_an_effect_that_ends_after_its_client_came_back_is_not_made_again(path: Path, told: bool) -> None:
    """`told`: the client came before the effect began, and was told that nobody knows what becomes of it."""
    bank, go = Bank(), asyncio.Event()

    @tool(side_effects=True)
    async def pay(to: str) -> str:
        bank.called.set()
        await go.wait()
        bank.paid.append((to, len(bank.paid) + 1))
        return f"paid {len(bank.paid)}"

    async with await SqliteJournal.open(path) as one, await SqliteJournal.open(path) as two:
        old, new = (Executor([pay], journal=each, policy=QUIET, clock=bank.clock) for each in (one, two))
        since = bank.clock.now()

        def called(executor: Executor, run: str, id: str, since: int) -> Coroutine[Any, Any, ToolResult]:
            context = Context(run=run, repeating=RepeatingCaller("ada", since))
            return executor.invoke(ToolCall(id, "pay", {"to": "ada"}), context)

        running = asyncio.create_task(called(old, "run_1", "call_1", since))
        await bank.called.wait()
        bank.clock.advance(1)
        if told:
            assert (await called(new, "run_2", "call_1", since)).outcome == "in_doubt"
        else:
            since = bank.clock.now()
        bank.clock.advance(1)
        go.set()
        await running
        bank.clock.advance(1)
        given = await called(new, "run_2", "call_2", since)
        again = await called(new, "run_2", "call_3", since)
        elsewhere = await called(old, "run_1", "call_2", 0)
        for executor in (old, new):
            executor.runs.let_go_all()
    assert (given.text, "not run again" in given.warnings[-1]) == ("paid 1", True)
    assert again.outcome == "needs_confirmation"
    assert elsewhere.text == "paid 2"  # who made the first may want another


async def test_a_request_key_means_the_same_effect_however_late_and_another_key_another(path: Path) -> None:
    bank = Bank()
    async with process(path, bank) as first:
        await first("run_1", may_repeat=True, request_key="a")
    bank.clock.advance(100_000)
    async with process(path, bank) as second:
        same = await second("run_2", may_repeat=True, request_key="a")
        other = await second("run_2", "call_2", may_repeat=True, request_key="b")
    assert (same.text, other.text) == ("paid 5 to ada (1)", "paid 5 to ada (2)")


async def test_a_call_that_timed_out_is_in_doubt_for_a_restarted_client(path: Path) -> None:
    bank = Bank()
    bank.cut_off = True
    async with process(path, bank, timeout=0.01) as first:
        assert (await first("run_1", may_repeat=True)).outcome == "timeout"
    async with process(path, bank) as second:
        assert (await second("run_2", may_repeat=True)).outcome == "in_doubt"
    assert bank.paid == [("ada", 5)]


async def test_a_failed_call_may_be_tried_again(path: Path) -> None:
    calls = []

    @tool(side_effects=True)
    async def pay(to: str, amount: int) -> str:
        calls.append(to)
        if len(calls) == 1:
            raise ConnectionError("the bank is closed")
        return "paid"

    async with await SqliteJournal.open(path) as journal:
        executor = Executor([pay], journal=journal, policy=QUIET)
        for run in ("run_1", "run_2"):
            result = await executor.invoke(
                ToolCall("call_1", "pay", {"to": "ada", "amount": 5}),
                Context(run=run, repeating=RepeatingCaller("ada", 2**60)),
            )
        executor.runs.let_go_all()
    assert (result.text, len(calls)) == ("paid", 2)


async def test_an_approval_given_before_a_restart_is_used_after_it_and_once(path: Path) -> None:
    bank, policy = Bank(), Policy()
    async with process(path, bank, policy=policy) as first:
        waiting = await first("run_1", may_repeat=True)
    assert waiting.outcome == "needs_confirmation"
    with JournalReader(path) as reader:
        (question,) = reader.pending()
    await answer(path, question, "allow", by="ada")
    async with process(path, bank, policy=policy) as second:
        allowed = await second("run_2", may_repeat=True)
        later = await second("run_2", "call_2", may_repeat=True, arguments={"amount": 6})
    assert allowed.text == "paid 5 to ada (1)"
    assert later.outcome == "needs_confirmation"
    async with process(path, bank, policy=policy) as third:
        repeated = await third("run_3", may_repeat=True)
    assert repeated.text == "paid 5 to ada (1)"
    assert bank.paid == [("ada", 5)]


async def test_a_client_that_asks_again_waits_for_the_same_word(path: Path) -> None:
    bank, seen = Bank(), list[str]()

    class Nobody:
        async def decide(self, question: Confirmation) -> Decision:
            seen.append(question.request)
            return Defer()

    for run in ("run_1", "run_2", "run_3"):
        async with process(path, bank, policy=Policy(), approver=Nobody()) as executor:
            assert (await executor(run, may_repeat=True)).outcome == "needs_confirmation"
    assert len(seen) == 3 and len(set(seen)) == 1


async def test_a_person_settles_an_effect_in_doubt_and_it_may_run_then(path: Path) -> None:
    bank = Bank()
    await killed_while_paying(path, bank)
    bank.paid.clear()
    refused = ToolResult("call_1", "pay", "it did not run", "cancelled")
    await settle(path, "run_killed", "pay", refused)
    async with process(path, bank) as later:
        result = await later("run_2")
    assert result.text == "paid 5 to ada (1)"


async def test_while_an_effect_is_under_way_in_another_process_an_equal_call_of_a_client_does_not_begin_it(
    path: Path,
) -> None:
    bank = Bank()
    bank.cut_off = True
    async with process(path, bank, timeout=60.0) as one, process(path, bank) as other:
        paying = asyncio.create_task(one("run_1", may_repeat=True))
        await bank.called.wait()
        second = await other("run_2", may_repeat=True)
        paying.cancel()
        await asyncio.gather(paying, return_exceptions=True)
    assert second.outcome == "in_doubt" and "is being worked on by this process" in second.text
    assert bank.paid == [("ada", 5)]


async def test_a_client_that_sends_a_call_again_while_it_runs_gets_its_result_and_a_note(path: Path) -> None:
    bank, may_answer = Bank(), asyncio.Event()

    @tool(side_effects=True)
    async def pay(to: str, amount: int) -> str:
        bank.paid.append((to, amount))
        await may_answer.wait()
        return "paid"

    async with await SqliteJournal.open(path) as journal, Executor([pay], journal=journal, policy=QUIET) as executor:
        context = Context(run="run_1", repeating=RepeatingCaller("local", executor.runs.now(), may_resend=True))
        calls = [ToolCall(f"call_{n}", "pay", {"to": "ada", "amount": 5}) for n in range(3)]
        under_way = [asyncio.create_task(executor.invoke(call, context)) for call in calls]
        await until(lambda: bool(bank.paid))
        await until_still(lambda: list(bank.paid))
        may_answer.set()
        first, *again = [await each for each in under_way]
        wanted = await executor.invoke(ToolCall("call_9", "pay", {"to": "ada", "amount": 5}), context)
    assert (first.text, first.warnings) == ("paid", ())
    assert [each.text for each in again] == ["paid"] * 2
    assert all("an equal call that was running (run run_1, call call_0)" in each.warnings[-1] for each in again)
    assert (wanted.text, wanted.warnings) == ("paid", ())  # the first has ended: it is wanted again
    assert bank.paid == [("ada", 5)] * 2


async def test_a_call_that_is_sent_again_and_then_given_up_is_in_doubt(path: Path) -> None:
    bank = Bank()
    bank.cut_off = True
    async with process(path, bank, timeout=60.0) as client:
        first = asyncio.create_task(client("run_1", may_repeat=True, may_resend=True))
        await bank.called.wait()
        second = asyncio.create_task(client("run_1", "call_2", may_repeat=True, may_resend=True))
        await until_still(lambda: second.done())
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert (await second).outcome == "in_doubt"
    assert bank.paid == [("ada", 5)]


async def test_sessions_of_ours_that_do_the_same_at_the_same_time_are_two_wishes(path: Path) -> None:
    bank = Bank()
    async with process(path, bank) as one, process(path, bank) as other:
        results = await asyncio.gather(one("run_1"), other("run_2"))
    assert [each.outcome for each in results] == ["ok", "ok"]
    assert bank.paid == [("ada", 5)] * 2


@pytest.mark.parametrize("may_repeat", [True, False])
async def test_two_equal_calls_at_once_take_up_one_that_was_cut_off_together(path: Path, may_repeat: bool) -> None:
    bank, looking, may_answer = Bank(), asyncio.Event(), asyncio.Event()
    await killed_while_paying(path, bank)
    bank.paid.clear()  # the bank lost it

    async def look(invocation: Any) -> str | None:
        looking.set()
        await may_answer.wait()
        return "paid" if bank.paid else None

    async with process(path, bank, reconcile=look) as later:
        first = asyncio.create_task(later("run_2", may_repeat=may_repeat))
        await looking.wait()
        second = asyncio.create_task(later("run_3", may_repeat=may_repeat))
        await until_still(lambda: list(bank.paid))
        may_answer.set()
        texts = [(await each).text for each in (first, second)]
    assert texts == ["paid 5 to ada (1)"] * 2
    assert bank.paid == [("ada", 5)]


async def test_a_run_stays_held_until_the_last_of_its_calls_that_were_taken_up_has_its_answer(path: Path) -> None:
    bank, looking, may_answer = Bank(), asyncio.Event(), asyncio.Event()
    bank.cut_off = True
    journal = await SqliteJournal.open(path)
    executor = Executor(bank.tools(), journal=journal, policy=QUIET, clock=bank.clock)
    calls = [
        asyncio.create_task(pay(executor, bank, "run_killed", to, arguments={"to": to}, may_repeat=True))
        for to in ("ada", "eve")
    ]
    await until(lambda: len(bank.paid) == 2)
    executor.runs.let_go_all()
    await journal.aclose()
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    async def look(invocation: Any) -> str | None:
        if invocation.arguments["to"] == "ada":
            await looking.wait()  # begins first, and ends while the other is under way
        else:
            looking.set()
            await may_answer.wait()
        return "the bank says: paid"

    async with process(path, bank, reconcile=look) as one, process(path, bank, reconcile=look) as other:
        first = asyncio.create_task(one("run_2", "call_1", may_repeat=True))
        await until(lambda: one.args[0].runs.holds("run_killed"))
        second = asyncio.create_task(one("run_2", "call_2", may_repeat=True, arguments={"to": "eve"}))
        assert (await first).text == "the bank says: paid"
        elsewhere = await other("run_3", may_repeat=True, arguments={"to": "eve"})
        may_answer.set()
        assert (await second).text == "the bank says: paid"
    assert "is being worked on" in elsewhere.text


@pytest.mark.parametrize("may_repeat", [True, False])
async def test_who_got_the_first_result_is_asked_also_when_their_run_was_resumed(path: Path, may_repeat: bool) -> None:
    bank, asked = Bank(), list[Confirmation]()

    async def approver(question: Confirmation) -> bool:
        asked.append(question)
        return True

    async with process(path, bank) as first:
        await first("run_1", may_repeat=may_repeat)
    async with process(path, bank) as second:
        given = await second("run_2", "call_1", may_repeat=may_repeat)
    async with process(path, bank, approver=approver) as resumed:
        again = await resumed("run_2", "call_2", may_repeat=may_repeat)
    assert "not run again" in given.warnings[-1]
    assert "again, on purpose" in asked[0].why
    assert again.text == "paid 5 to ada (2)"


class LossyBank(Bank):
    """Its line breaks after each payment, or before it: nobody here knows."""

    pays = True

    def tools(self, **options: Any) -> list[Any]:
        @tool(side_effects=True, **options)
        async def pay(to: str, amount: int) -> str:
            if self.pays:
                self.paid.append((to, amount))
            if self.cut_off:
                raise InDoubt("the line broke; whether it took effect is not known")
            return f"paid {amount} to {to} ({len(self.paid)})"

        return [pay]


@pytest.mark.parametrize("may_repeat", [True, False])
@pytest.mark.parametrize("paid", [True, False])
async def test_a_person_settles_an_effect_in_doubt_while_the_program_goes_on(
    path: Path, may_repeat: bool, paid: bool
) -> None:
    bank = LossyBank()
    bank.cut_off, bank.pays = True, paid
    async with process(path, bank) as program:
        doubtful = await program("run_1", "call_1", may_repeat=may_repeat)
        bank.cut_off, bank.pays = False, True
        assert (doubtful.outcome, doubtful.text.count("handrail confirm settle run_1 call_1")) == ("in_doubt", 1)
        found = ToolResult("call_1", "pay", "it was paid" if paid else "not run", "ok" if paid else "cancelled")
        await settle(path, "run_1", "pay", found, clock=bank.clock)
        again = await program("run_1", "call_2", may_repeat=may_repeat)
    assert again.text == ("it was paid" if paid else "paid 5 to ada (1)")
    assert bank.paid == [("ada", 5)]


async def test_what_was_cut_off_and_did_not_happen_gives_way_to_a_call_with_other_arguments_and_its_business_key(
    path: Path,
) -> None:
    bank = Bank()

    async def look(invocation: Any) -> None:
        return None

    await killed_while_paying(path, bank, reconcile=look, effect_key=("to",))
    bank.paid.clear()  # the bank lost it
    async with process(path, bank, reconcile=look, effect_key=("to",)) as later:
        corrected = await later("run_2", may_repeat=True, arguments={"amount": 50})
        bank.clock.advance(1)
        again = await later("run_3", may_repeat=True, arguments={"amount": 50})
    assert (corrected.text, again.text) == ("paid 50 to ada (1)", "paid 50 to ada (1)")
    assert bank.paid == [("ada", 50)]
