"""Side effects wait for a person's word on exactly this call."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import Context, Executor, Invocation, Policy, Secret, ToolCall, tool
from handrail.core.confirmation import Allow, Confirmation, Deny, Edit
from handrail.core.errors import UsageError
from handrail.core.events import CallIntended, ConfirmationAnswered, ConfirmationRequested, Recorded
from handrail.core.ports import Approver, Journal
from handrail.execute.rules import Rules
from handrail.testing.clock import FixedClock
from handrail.testing.journal import MemoryJournal
from handrail.tools.tool import Tool
from tests.execute.approvers import FixedApprover, allow_all


class Bank:
    """A side effect one can count."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(side_effects=True)
        async def pay(amount: int) -> str:
            """Pay someone."""
            self.paid.append(amount)
            return f"paid {amount}"

        self.pay: Tool = pay

    def executor(self, approver: Approver | None = None, journal: Journal | None = None) -> Executor:
        return Executor([self.pay], approver=approver, journal=journal)


async def waiting(journal: MemoryJournal) -> str:
    return next(event.request for event in journal.events if isinstance(event, ConfirmationRequested))


@pytest.mark.requirement("hearthnet.confirmation")
async def test_a_side_effect_without_an_approver_waits_and_does_nothing() -> None:
    bank = Bank()
    async with bank.executor() as executor:
        result = await executor.invoke(ToolCall("1", "pay", {"amount": 5}))

    assert (result.outcome, bank.paid) == ("needs_confirmation", [])


@pytest.mark.requirement("hearthnet.confirmation")
async def test_a_granted_call_runs_once_and_asking_again_gives_the_same_answer() -> None:
    bank, journal = Bank(), MemoryJournal()
    async with bank.executor(journal=journal) as executor:
        call = ToolCall("1", "pay", {"amount": 5})
        await executor.invoke(call)
        await executor.answer(executor.run, await waiting(journal), allow=True, by="ada")
        first = await executor.invoke(call)
        again = await executor.invoke(call)

    assert (first.content, again, bank.paid) == ("paid 5", first, [5])


@pytest.mark.parametrize(("word", "took"), [(Allow("ada"), 2), (Deny("ada"), 0)], ids=["allowed", "denied"])
async def test_how_long_a_call_took_is_told_without_the_time_in_which_a_person_thought(
    word: Allow | Deny, took: int
) -> None:
    clock = FixedClock()

    @tool(side_effects=True)
    async def pay(amount: int) -> str:
        """Pay someone."""
        clock.advance(2)
        return "paid"

    class Slow:
        async def decide(self, question: Confirmation) -> Allow | Deny:
            clock.advance(3_600)
            return word

    async with Executor([pay], approver=Slow(), clock=clock) as executor:
        result = await executor.invoke(ToolCall("1", "pay", {"amount": 5}))

    assert result.duration_us == took * 1_000_000


@pytest.mark.requirement("hearthnet.confirmation")
async def test_a_grant_is_not_good_for_other_arguments_another_call_or_another_run() -> None:
    bank, journal = Bank(), MemoryJournal()
    async with bank.executor(journal=journal) as executor:
        await executor.invoke(ToolCall("1", "pay", {"amount": 5}))
        await executor.answer(executor.run, await waiting(journal), allow=True, by="ada")
        other_call = await executor.invoke(ToolCall("2", "pay", {"amount": 5}))
        other_arguments = await executor.invoke(ToolCall("1", "pay", {"amount": 500}))
    async with bank.executor(journal=journal) as elsewhere:
        other_run = await elsewhere.invoke(ToolCall("1", "pay", {"amount": 5}))

    assert (other_call.outcome, other_arguments.outcome, other_run.outcome) == (
        "needs_confirmation",
        "failed",
        "needs_confirmation",
    )
    assert bank.paid == []


@pytest.mark.requirement("hearthnet.confirmation")
async def test_a_grant_given_after_the_process_has_gone_lets_the_next_one_run_the_call() -> None:
    bank, journal = Bank(), MemoryJournal()
    call = ToolCall("1", "pay", {"amount": 5})
    async with bank.executor(journal=journal) as first:
        run = first.run
        await first.invoke(call)
    request = next(event for event in journal.events if isinstance(event, ConfirmationRequested))
    await journal.append(
        ConfirmationAnswered(
            run=run, at=1, request=request.request, call_id="1", binds=request.binds, decision="allow", by="ada"
        )
    )

    async with bank.executor(journal=journal) as second:
        result = await second.invoke(call, Context(run=run))

    assert (result.content, bank.paid) == ("paid 5", [5])
    intent = next(event for event in journal.events if isinstance(event, CallIntended))
    assert intent.grant == request.request


async def test_the_approver_sees_exactly_what_will_run() -> None:
    bank, approver = Bank(), allow_all()
    async with bank.executor(approver) as executor:
        await executor.invoke(ToolCall("1", "pay", '{"amount": 5}'))

    (question,) = approver.questions
    assert (question.tool, question.arguments, question.description) == ("pay", {"amount": 5}, "Pay someone.")
    assert bank.paid == [5]


async def test_a_denied_call_says_who_and_why_and_stays_denied() -> None:
    bank = Bank()
    async with bank.executor(FixedApprover(Deny("ada", "too much"))) as executor:
        result = await executor.invoke(ToolCall("1", "pay", {"amount": 5}))
        again = await executor.invoke(ToolCall("1", "pay", {"amount": 5}))

    assert (result.outcome, again, bank.paid) == ("denied", result, [])
    assert "ada" in result.text
    assert "too much" in result.text


async def test_edited_arguments_are_what_runs_and_the_caller_is_told() -> None:
    bank, journal = Bank(), MemoryJournal()
    async with bank.executor(FixedApprover(Edit("ada", {"amount": 3})), journal) as executor:
        result = await executor.invoke(ToolCall("1", "pay", {"amount": 5}))

    assert (result.content, bank.paid) == ("paid 3", [3])
    assert any("ada" in warning for warning in result.warnings)
    intent = next(event for event in journal.events if isinstance(event, CallIntended))
    assert intent.arguments == {"amount": 3}


async def test_a_call_that_ran_with_edited_arguments_is_known_by_what_was_asked() -> None:
    bank, journal = Bank(), MemoryJournal()
    call = ToolCall("1", "pay", {"amount": 5})
    async with bank.executor(FixedApprover(Edit("ada", {"amount": 3})), journal) as executor:
        first = await executor.invoke(call)
    async with bank.executor(journal=journal) as later:
        again = await later.invoke(call, Context(run=executor.run))

    assert (again, bank.paid) == (first, [3])


async def test_edited_arguments_that_do_not_fit_are_refused() -> None:
    bank = Bank()
    async with bank.executor(FixedApprover(Edit("ada", {"amount": "lots"}))) as executor:
        result = await executor.invoke(ToolCall("1", "pay", {"amount": 5}))

    assert (result.outcome, bank.paid) == ("invalid_arguments", [])


async def test_a_standing_rule_answers_in_advance_and_others_are_asked() -> None:
    bank, approver, journal = Bank(), FixedApprover(Deny("ada")), MemoryJournal()
    async with bank.executor(Rules(["allow pay amount=5"], approver), journal) as executor:
        small = await executor.invoke(ToolCall("1", "pay", {"amount": 5}))
        large = await executor.invoke(ToolCall("2", "pay", {"amount": 500}))

    assert (small.outcome, large.outcome, bank.paid) == ("ok", "denied", [5])
    answers = [event.by for event in journal.events if isinstance(event, ConfirmationAnswered)]
    assert answers == ["rule 'allow pay amount=5'", "ada"]


async def test_a_side_effect_deep_inside_other_tools_is_asked_about_too() -> None:
    bank, approver = Bank(), allow_all()

    @tool(side_effects=True)
    async def outer(invocation: Invocation) -> Any:
        return await invocation.invoke("middle", {})

    @tool(side_effects=True)
    async def middle(invocation: Invocation) -> Any:
        return await invocation.invoke("pay", {"amount": 7})

    async with Executor([outer, middle, bank.pay], approver=approver) as executor:
        result = await executor.invoke(ToolCall("1", "outer"))

    assert (result.content, bank.paid) == ("paid 7", [7])
    assert [question.tool for question in approver.questions] == ["outer", "middle", "pay"]


@pytest.mark.parametrize(("facts", "made"), [({}, "look"), ({"side_effects": True, "idempotent": True}, "put")])
async def test_a_tool_that_may_run_again_cannot_call_one_that_must_not(facts: Any, made: str) -> None:
    bank = Bank()

    @tool(**facts)
    async def careless(invocation: Invocation) -> Any:
        assert (await invocation.invoke(made, {})).outcome == "ok"
        return (await invocation.invoke("pay", {"amount": 7})).outcome

    @tool
    async def look() -> int:
        return 1

    @tool(side_effects=True, idempotent=True)
    async def put() -> int:
        return 1

    async with Executor([careless, look, put, bank.pay], policy=Policy(confirm_side_effects=False)) as executor:
        result = await executor.invoke(ToolCall("1", "careless"))

    assert (result.content, bank.paid) == ("forbidden", [])


async def test_a_policy_may_do_without_confirmation() -> None:
    bank = Bank()
    async with Executor([bank.pay], policy=Policy(confirm_side_effects=False)) as executor:
        result = await executor.invoke(ToolCall("1", "pay", {"amount": 5}))

    assert (result.outcome, bank.paid) == ("ok", [5])


async def test_the_first_answer_counts_also_if_another_process_gave_it() -> None:
    bank, journal = Bank(), MemoryJournal()
    call = ToolCall("1", "pay", {"amount": 5})
    async with bank.executor(journal=journal) as executor:
        await executor.invoke(call)
        request = next(event for event in journal.events if isinstance(event, ConfirmationRequested))
        await journal.append(request.answered("deny", at=1, by="bob"))
        with pytest.raises(UsageError):
            await executor.answer(executor.run, request.request, allow=True, by="ada")
        result = await executor.invoke(call)

    assert (result.outcome, bank.paid) == ("denied", [])


async def test_an_answer_is_looked_for_without_reading_the_whole_run() -> None:
    class Counting(MemoryJournal):
        read = 0

        async def history(self, run: str) -> list[Recorded]:
            self.read += 1
            return await super().history(run)

    bank, journal = Bank(), Counting()
    call = ToolCall("1", "pay", {"amount": 5})
    async with bank.executor(journal=journal) as executor:
        await executor.invoke(call)
        request = next(event for event in journal.events if isinstance(event, ConfirmationRequested))
        before = journal.read
        assert (await executor.invoke(call)).outcome == "needs_confirmation"
        await journal.append(request.answered("allow", at=1, by="bob"))
        assert (await executor.invoke(call)).outcome == "ok"

    assert (journal.read, bank.paid) == (before, [5])


async def test_an_approver_that_answers_with_something_else_is_told_what_to_answer() -> None:
    bank = Bank()
    async with bank.executor(FixedApprover(True)) as executor:  # type: ignore[arg-type]  # as a program without a checker may
        with pytest.raises(UsageError, match="Allow, Deny, Edit or Defer"):
            await executor.invoke(ToolCall("1", "pay", {"amount": 5}))

    assert bank.paid == []


async def test_an_answer_to_a_question_nobody_asked_is_refused() -> None:
    async with Bank().executor() as executor:
        with pytest.raises(UsageError):
            await executor.answer(executor.run, "confirm_9", allow=True, by="ada")


async def test_a_mask_in_arguments_is_refused_after_an_edit_as_it_is_before() -> None:
    ran: list[str] = []

    @tool(side_effects=True)
    async def log_in(user: str, password: Secret) -> str:
        """Log in."""
        ran.append(password)
        return "in"

    journal = MemoryJournal()
    masked = {"user": "bob", "password": "[redacted]"}
    async with Executor([log_in], approver=FixedApprover(Edit("ada", masked)), journal=journal) as executor:
        edited = await executor.invoke(ToolCall("1", "log_in", {"user": "ada", "password": "s3cret"}))
        written = await executor.invoke(ToolCall("2", "log_in", masked))

    assert (edited.outcome, written.outcome, ran) == ("invalid_arguments", "invalid_arguments", [])
    assert not [event for event in journal.events if isinstance(event, ConfirmationAnswered)]
