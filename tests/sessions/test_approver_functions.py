"""`approver=` takes a function: what it returns decides about exactly the call that it was shown."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from handrail import Executor, Session, ToolCall, ToolResult, tool
from handrail.confirm import Allow, AnyApprover, Confirmation, Defer, Deny, Edit, Rules, as_approver
from handrail.errors import UsageError
from handrail.events import ConfirmationAnswered, ConfirmationRequested
from handrail.testing import MemoryJournal, ScriptedModel, call, text


class Bank:
    def __init__(self) -> None:
        self.paid: list[int] = []

    def session(self, approver: AnyApprover | None, *amounts: int, journal: MemoryJournal | None = None) -> Session:
        @tool(side_effects=True)
        def pay(amount: int) -> str:
            """Pay someone."""
            self.paid.append(amount)
            return f"paid {amount}"

        model = ScriptedModel([call("pay", amount=amount) for amount in amounts or (5,)], [text("Done.")])
        return Session(model, tools=[pay], approver=approver, journal=journal)

    def result(self, approver: AnyApprover | None) -> ToolResult:
        with self.session(approver) as session:
            (result,) = session.ask("Pay 5.").results
        return result


def returning(answer: Any) -> Callable[[Confirmation], Any]:
    def decided(question: Confirmation) -> Any:
        return answer

    return decided


def returning_async(answer: Any) -> Callable[[Confirmation], Any]:
    async def decided(question: Confirmation) -> Any:
        return answer

    return decided


@pytest.mark.parametrize("kind", [returning, returning_async], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("answer", "outcome", "paid"),
    [
        (True, "ok", [5]),
        (False, "denied", []),
        (Allow("ada"), "ok", [5]),
        (Deny("ada", "too much"), "denied", []),
        (Edit("ada", {"amount": 3}), "ok", [3]),
        (Defer(), "needs_confirmation", []),
        ({"amount": 3}, "ok", [3]),
        ({"amount": "three"}, "invalid_arguments", []),
        ({}, "invalid_arguments", []),
    ],
    ids=repr,
)
def test_what_a_function_returns_decides(
    kind: Callable[[Any], Callable[[Confirmation], Any]], answer: Any, outcome: str, paid: list[int]
) -> None:
    bank = Bank()

    result = bank.result(kind(answer))

    assert (result.outcome, bank.paid) == (outcome, paid)


def test_the_model_and_the_record_are_told_which_function_decided() -> None:
    def small_amounts_only(question: Confirmation) -> bool:
        return bool(question.arguments["amount"] < 5)

    journal = MemoryJournal()
    with Bank().session(small_amounts_only, journal=journal) as session:
        (result,) = session.ask("Pay 5.").results

    (answered,) = (event for event in journal.events if isinstance(event, ConfirmationAnswered))
    assert answered.by == "approver 'small_amounts_only'"
    assert "approver 'small_amounts_only' denied the call to 'pay'" in result.text


def test_the_model_is_told_what_a_function_changed() -> None:
    result = Bank().result(lambda question: {**question.arguments, "amount": 3})

    assert result.warnings == (
        'the approver function changed the arguments before the call ran; it ran with {"amount":3}',
    )


class Clerk:
    async def __call__(self, question: Confirmation) -> bool:
        return True


class Till:
    def decide(self, question: Confirmation) -> bool:
        return bool(question.arguments["amount"] <= 5)


def test_an_object_may_decide_by_a_plain_method() -> None:
    bank = Bank()
    with bank.session(Till(), 5, 6) as session:
        paid, denied = session.ask("Pay 5 and 6.").results

    assert (paid.outcome, bank.paid) == ("ok", [5])
    assert denied.text == "approver 'Till' denied the call to 'pay'; do not repeat it"


def test_an_object_that_can_be_called_is_a_function_too() -> None:
    def limit(most: int, question: Confirmation) -> bool:
        return bool(question.arguments["amount"] <= most)

    assert Bank().result(Clerk()).outcome == "ok"
    assert Bank().result(partial(limit, 4)).outcome == "denied"
    assert Bank().result(lambda question: Clerk()(question)).outcome == "ok"


@pytest.mark.parametrize("answer", [None, 1, "yes", [], object], ids=repr)
def test_any_other_answer_is_a_mistake_of_the_program_and_nothing_runs(answer: Any) -> None:
    bank = Bank()

    with pytest.raises(UsageError, match="return True or False"):
        bank.result(returning(answer))

    assert bank.paid == []


@pytest.mark.parametrize("answer", [True, Allow("ada")], ids=repr)
def test_arguments_that_were_changed_in_place_and_not_returned_are_a_mistake(answer: Any) -> None:
    def cut(question: Confirmation) -> Any:
        question.arguments["amount"] = 3
        return answer

    bank = Bank()
    with pytest.raises(UsageError, match="return the changed arguments"):
        bank.result(cut)

    assert bank.paid == []


def test_arguments_that_were_changed_in_place_and_returned_are_an_edit() -> None:
    def cut(question: Confirmation) -> dict[str, Any]:
        question.arguments["amount"] = 3
        return question.arguments

    bank = Bank()
    assert "changed the arguments" in bank.result(cut).warnings[0]
    assert bank.paid == [3]


def test_an_error_of_the_function_reaches_the_program_and_nothing_runs() -> None:
    def broken(question: Confirmation) -> bool:
        raise ConnectionError("the desk is closed")

    bank = Bank()
    with pytest.raises(ConnectionError, match="the desk is closed"):
        bank.result(broken)

    assert bank.paid == []


async def test_a_plain_function_is_asked_one_question_at_a_time() -> None:
    loop = asyncio.get_running_loop()
    inside: list[str] = []

    def slow(question: Confirmation) -> bool:
        inside.append("in")
        others_have_begun = threading.Event()
        loop.call_soon_threadsafe(others_have_begun.set)
        others_have_begun.wait(30)
        inside.append("out")
        return True

    bank = Bank()
    async with bank.session(slow, 1, 2, 3) as session:
        await session.ask_async("Pay 1, 2 and 3.")

    assert (inside, sorted(bank.paid)) == (["in", "out"] * 3, [1, 2, 3])


async def test_a_plain_function_runs_beside_the_event_loop() -> None:
    asked, answered = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait(question: Confirmation) -> bool:
        loop.call_soon_threadsafe(asked.set)
        return answered.wait(30)

    async with Bank().session(wait) as session:
        asking = asyncio.create_task(session.ask_async("Pay 5."))
        await asked.wait()
        answered.set()
        reply = await asking

    assert reply.results[0].outcome == "ok"


async def test_an_answer_from_elsewhere_comes_first_while_a_function_still_waits() -> None:
    asked, released = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait(question: Confirmation) -> bool:
        loop.call_soon_threadsafe(asked.set)
        released.wait(30)
        return False

    paid: list[int] = []

    @tool(side_effects=True)
    def pay(amount: int) -> None:
        """Pay someone."""
        paid.append(amount)

    journal = MemoryJournal()
    async with Executor([pay], approver=wait, journal=journal) as executor:
        paying = asyncio.create_task(executor.invoke(ToolCall("1", "pay", {"amount": 5})))
        await asked.wait()
        request = next(event.request for event in journal.events if isinstance(event, ConfirmationRequested))
        await executor.answer(executor.run, request, allow=True, by="ada")
        result = await paying
        released.set()

    assert (result.outcome, paid) == ("ok", [5])


def test_a_function_is_asked_where_no_rule_decides() -> None:
    bank = Bank()
    rules = Rules(["allow pay amount=1"], otherwise=lambda question: question.arguments["amount"] == 2)
    with bank.session(rules, 1, 2, 3) as session:
        outcomes = [result.outcome for result in session.ask("Pay 1, 2 and 3.").results]

    assert (outcomes, sorted(bank.paid)) == (["ok", "ok", "denied"], [1, 2])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("termnal", "did you mean 'terminal'?"),
        (Clerk, "give one of them, as Clerk()"),
        (5, "not 5"),
        (True, "not True"),
    ],
    ids=repr,
)
def test_what_cannot_decide_is_refused_when_it_is_given(given: Any, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        Bank().session(given)

    assert words in str(refused.value)


async def test_a_function_becomes_an_approver_where_one_is_needed() -> None:
    question = Confirmation(
        request="confirm_1", run="run_1", call_id="1", tool="pay", description="", arguments={"amount": 5}, binds=""
    )

    approver = as_approver(lambda question: question.arguments["amount"] == 5)

    assert await approver.decide(question) == Allow("the approver function")
    assert as_approver(approver) is approver
