"""What the simulation found, each as a scene of its own."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from handrail import (
    Context,
    Conversation,
    Executor,
    Invocation,
    Limits,
    Policy,
    Runner,
    ToolCall,
    ToolError,
    ToolResult,
    tool,
)
from handrail.core.confirmation import Confirmation, Decision, Edit
from handrail.core.errors import JournalError, ToolFailed
from handrail.core.events import CallAmended, CallIntended, CallSettled, ConfirmationRequested, Recorded, ReplyGiven
from handrail.core.messages import ResultMessage
from handrail.run.history import conversation_of
from handrail.run.single_run import FINALISE
from handrail.testing.journal import MemoryJournal
from handrail.testing.loop import SeededLoop
from handrail.testing.model import ScriptedModel, call, text

FREE = Policy(confirm_side_effects=False)
RUN = Context(run="r")


def results(conversation: Conversation) -> list[tuple[str, Any]]:
    found = (message.result for message in conversation.messages if isinstance(message, ResultMessage))
    return [(result.outcome, result.content) for result in found]


def begun(tool: str, **facts: Any) -> CallIntended:
    """What a process that died in the middle of a call left behind."""
    facts = {"side_effects": True, "idempotent": False, "key": "key", "arguments": {"amount": 5}, **facts}
    return CallIntended(run="r", at=1, call_id="1", tool=tool, **facts)


@tool(side_effects=True)
async def pay(amount: int) -> str:
    return f"paid {amount}"


@tool
async def look(n: int) -> int:
    return n


async def test_a_call_that_may_have_run_is_in_doubt_also_where_its_tool_is_gone() -> None:
    journal = MemoryJournal()
    journal.events.append(begun("pay"))
    async with Executor([look], journal=journal) as executor:
        refused = await executor.result_of_left_call(ToolCall("1", "pay", {"amount": 5}), RUN)

    assert refused.outcome == "in_doubt"


async def test_a_call_that_ran_and_could_not_be_recorded_never_says_that_it_did_nothing() -> None:
    class Full(MemoryJournal):
        async def append(self, event: Recorded, *, durable: bool = False) -> None:
            if isinstance(event, CallSettled) and event.ran:
                raise JournalError("the disk is full")
            await super().append(event, durable=durable)

    async with Executor([pay], journal=Full(), policy=FREE) as executor:
        with pytest.raises(JournalError):
            await executor.invoke(ToolCall("1", "pay", {"amount": 5}), RUN)
        told = await executor.result_of_left_call(ToolCall("1", "pay", {"amount": 5}), RUN)

    assert told.outcome == "in_doubt"


async def test_a_caller_that_is_cancelled_twice_leaves_one_answer() -> None:
    class Slow(MemoryJournal):
        def __init__(self) -> None:
            super().__init__()
            self.asked, self.go_on = asyncio.Event(), asyncio.Event()

        async def append(self, event: Recorded, *, durable: bool = False) -> None:
            if isinstance(event, CallSettled):
                self.asked.set()
                await self.go_on.wait()
            await super().append(event, durable=durable)

    journal = Slow()
    async with Executor([pay], journal=journal, policy=FREE) as executor:
        task = asyncio.create_task(executor.invoke(ToolCall("1", "pay", {"amount": 5}), RUN))
        async with asyncio.timeout(30):
            await journal.asked.wait()
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            journal.go_on.set()
            await asyncio.wait({task})
        again = await executor.result_of_left_call(ToolCall("1", "pay", {"amount": 5}), RUN)

    assert [event.outcome for event in journal.events if isinstance(event, CallSettled)] == ["ok"]
    assert again.content == "paid 5"


def test_an_answer_that_takes_minutes_to_be_written_is_still_the_only_one() -> None:
    class Stalled(MemoryJournal):
        async def append(self, event: Recorded, *, durable: bool = False) -> None:
            if isinstance(event, CallSettled):
                stalled.set()
                await asyncio.sleep(600)  # a disk that does not answer
            await super().append(event, durable=durable)

    async def scene() -> tuple[ToolResult, list[Recorded]]:
        journal = Stalled()
        executor = Executor([look], journal=journal)
        asked = ToolCall("1", "look", {"n": 7})
        task = asyncio.create_task(executor.invoke(asked, RUN))
        await stalled.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await executor.result_of_left_call(asked, RUN), journal.events

    stalled = asyncio.Event()
    answer, events = SeededLoop(1).run(scene())

    assert (answer.outcome, answer.content) == ("ok", 7)
    assert not [event for event in events if isinstance(event, CallSettled)]


async def test_what_comes_late_stands_beside_the_answer_and_what_a_person_says_is_the_answer() -> None:
    call_made = ToolCall("1", "pay", {"amount": 5})
    journal = MemoryJournal()
    async with Executor([pay], journal=journal, policy=FREE) as executor:
        first = await executor.invoke(call_made, RUN)
    result = ToolResult("1", "pay", "it failed", "failed")
    answers = []
    for why in _WHYS:
        journal.events.append(
            CallAmended(run="r", at=2, call_id="1", tool="pay", outcome="failed", why=why, result=result)
        )
        async with Executor([pay], journal=journal, policy=FREE) as executor:
            answers.append(await executor.invoke(call_made, RUN))

    assert answers == [first, result]


_WHYS: tuple[Literal["late", "person"], ...] = ("late", "person")


async def test_arguments_that_a_person_changed_are_those_of_the_call_when_it_is_taken_up() -> None:
    looked_up: list[int] = []
    ran: list[int] = []

    class Editor:
        async def decide(self, question: Confirmation) -> Decision:
            return Edit("ada", {"n": 7})

    def look_up(invocation: Invocation) -> None:
        looked_up.append(invocation.arguments["n"])

    @tool(side_effects=True, reconcile=look_up)
    async def put(n: int) -> str:
        ran.append(n)
        if len(ran) == 1:
            raise asyncio.CancelledError  # stands for a process that ends here
        return f"put {n}"

    journal = MemoryJournal()
    made = ToolCall("1", "put", {"n": 1})
    async with Executor([put], journal=journal, approver=Editor()) as executor:
        await executor.invoke(made, RUN)
    journal.events = [event for event in journal.events if not isinstance(event, CallSettled)]
    async with Executor([put], journal=journal) as executor:
        result = await executor.invoke(made, RUN)

    assert (looked_up, ran, result.content) == ([7], [7, 7], "put 7")
    assert sum(isinstance(event, ConfirmationRequested) for event in journal.events) == 1


async def test_ids_of_a_reply_that_was_never_recorded_are_not_used_for_other_calls() -> None:
    """A read that began early is on record; the reply that asked for it is not, and the next one is another."""
    journal = MemoryJournal()
    async with Executor([look], journal=journal) as executor:
        runner = Runner(ScriptedModel([call("look", "a", n=1)], [text("done")]), executor)
        await runner.run(Conversation().say("look"), RUN)
    at = next(at for at, event in enumerate(journal.events) if isinstance(event, ReplyGiven))
    settled = [event for event in journal.events if isinstance(event, CallIntended | CallSettled)]
    journal.events = [*journal.events[:at], *(event for event in settled if event not in journal.events[:at])]
    async with Executor([look], journal=journal) as executor:
        runner = Runner(ScriptedModel([call("look", "a", n=2)], [text("done")]), executor)
        conversation = await runner.run(conversation_of(await journal.history("r")), RUN)

    assert results(conversation) == [("ok", 2)]
    assert results(conversation_of(journal.events)) == [("ok", 2)]


async def test_limits_hold_over_a_restart_and_the_last_word_is_asked_for_once() -> None:
    journal = MemoryJournal()
    limits = Limits(iterations=2)
    async with Executor([look], journal=journal) as executor:
        model = ScriptedModel([call("look", n=1)], [call("look", n=2)])
        with pytest.raises(Exception, match="asked for one more"):
            await Runner(model, executor, limits).run(Conversation().say("look"), RUN)
    async with Executor([look], journal=journal) as executor:
        model = ScriptedModel([text("enough")], [text("too much")])
        conversation = await Runner(model, executor, limits).run(conversation_of(journal.events), RUN)

    assert (conversation.text, len(model.requests), model.requests[0].tool_choice) == ("enough", 1, "none")
    assert [getattr(message, "text", "") for message in conversation.messages].count(FINALISE) == 1


async def test_a_run_that_was_cut_off_after_its_answer_asks_nothing_more() -> None:
    journal = MemoryJournal()
    async with Executor([look], journal=journal) as executor:
        first = await Runner(ScriptedModel([text("all said")]), executor).run(Conversation().say("hello"), RUN)
    async with Executor([look], journal=journal) as executor:
        model = ScriptedModel([text("more")])
        again = await Runner(model, executor).run(conversation_of(journal.events), RUN)

    assert (again, model.requests) == (first, [])


async def test_what_fails_fast_is_taken_back_in_the_record_too() -> None:
    @tool
    async def broken() -> None:
        raise ToolError("broken", "kaput")

    journal = MemoryJournal()
    begun_with = Conversation().say("try")
    async with Executor([broken], journal=journal) as executor:
        with pytest.raises(ToolFailed):
            await Runner(ScriptedModel([call("broken")]), executor, on_error="fail_fast").run(begun_with, RUN)

    assert conversation_of(journal.events) == begun_with


async def test_the_record_keeps_the_order_of_results_when_a_run_waited() -> None:
    journal = MemoryJournal()
    model = ScriptedModel([call("pay", amount=5), call("look", n=1)], [text("done")])
    async with Executor([pay, look], journal=journal) as executor:
        runner = Runner(model, executor, on_wait="pause")
        paused = await runner.run(Conversation().say("both"), RUN)
        request = next(event for event in journal.events if isinstance(event, ConfirmationRequested))
        await executor.answer("r", request.request, allow=True, by="ada")
        ended = await runner.run(paused, RUN)

    assert results(ended) == results(conversation_of(journal.events)) == [("ok", 1), ("ok", "paid 5")]
