"""The loop, with a scripted model and real tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from handrail import Context, Conversation, Executor, Limits, Policy, Runner, ToolError, tool
from handrail.core.errors import LimitExceeded, ProtocolError, ToolFailed
from handrail.core.events import (
    CallIntended,
    CallSettled,
    ConfirmationRequested,
    Event,
    ModelEvent,
    Notice,
    ReplyFinished,
    ReplyGiven,
    TextDelta,
    ToolsOffered,
)
from handrail.core.messages import (
    AssistantMessage,
    InvocationMessage,
    ResultMessage,
    SupervisorMessage,
    Usage,
)
from handrail.core.model_request import ModelRequest, NamedTool
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text

FREE = Policy(confirm_side_effects=False)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def results(conversation: Conversation) -> list[ResultMessage]:
    return [message for message in conversation.messages if isinstance(message, ResultMessage)]


class Listener:
    def __init__(self) -> None:
        self.events: list[Event] = []

    async def __call__(self, event: Event) -> None:
        self.events.append(event)


async def test_a_model_calls_a_tool_reads_the_result_and_answers() -> None:
    model = ScriptedModel([text("Let me see. "), call("add", a=1, b=2)], [text("It is 3.")])
    async with Executor([add]) as executor:
        conversation = await Runner(model, executor).run(Conversation().say("1 + 2?"))

    _, said, asked, told, answer = conversation.messages
    assert isinstance(said, AssistantMessage)
    assert isinstance(asked, InvocationMessage)
    assert isinstance(told, ResultMessage)
    assert isinstance(answer, AssistantMessage)
    assert (said.text, told.result.content, conversation.text) == ("Let me see. ", 3, "It is 3.")
    assert told.invocation_id == asked.id
    assert [offer.name for offer in model.requests[0].tools] == ["add"]
    assert model.requests[1].messages == conversation.messages[:4]


@pytest.mark.requirement("hearthnet.validation-feedback")
async def test_a_model_that_reads_its_mistake_can_correct_itself_in_the_same_run() -> None:
    model = ScriptedModel([call("add", a="one", b=2)], [call("add", a=1, b=2)], [text("3")])
    async with Executor([add]) as executor:
        conversation = await Runner(model, executor).run(Conversation().say("1 + 2?"))

    first, second = results(conversation)
    assert (first.result.outcome, second.result.outcome) == ("invalid_arguments", "ok")
    assert "a: expected integer" in first.result.text


async def test_reused_ids_are_told_apart_and_both_calls_run() -> None:
    model = ScriptedModel([call("add", "x", a=1, b=1), call("add", "x", a=2, b=2)], [call("add", "x", a=3, b=3)], [])
    async with Executor([add]) as executor:
        conversation = await Runner(model, executor).run(Conversation().say("all"))

    assert [message.result.content for message in results(conversation)] == [2, 4, 6]


@pytest.mark.requirement("hearthnet.iteration-limit")
async def test_at_the_limit_a_message_says_so_and_the_model_is_asked_once_more_for_an_answer() -> None:
    model = ScriptedModel([call("add", a=1, b=1)], [call("add", a=2, b=2)], [text("enough"), call("add", a=3, b=3)])
    async with Executor([add]) as executor:
        conversation = await Runner(model, executor, Limits(iterations=2)).run(Conversation().say("go on"))

    note, answer = conversation.messages[-2:]
    assert isinstance(note, SupervisorMessage)
    assert "limit of tool calls is reached" in note.text
    assert isinstance(answer, AssistantMessage)
    assert (answer.text, len(results(conversation))) == ("enough", 2)
    assert [request.tool_choice for request in model.requests] == ["auto", "auto", "none"]


@pytest.mark.requirement("hearthnet.iteration-limit")
def test_the_limit_is_six_iterations_unless_said_otherwise() -> None:
    assert Limits().iterations == 6


async def test_at_the_limit_the_run_may_raise_with_the_work_so_far_or_stop() -> None:
    script = [[call("add", a=1, b=1)]]
    async with Executor([add]) as executor:
        with pytest.raises(LimitExceeded) as caught:
            await Runner(ScriptedModel(*script), executor, Limits(iterations=1, on_limit="error")).run(
                Conversation().say("go on"), Context(run="a")
            )
        stopped = await Runner(ScriptedModel(*script), executor, Limits(iterations=1, on_limit="stop")).run(
            Conversation().say("go on"), Context(run="b")
        )

    assert [message.result.content for message in results(caught.value.conversation)] == [2]
    assert [message.result.content for message in results(stopped)] == [2]


@pytest.mark.parametrize(
    ("limits", "usage"),
    [(Limits(tokens=100), Usage(input_tokens=90, output_tokens=10)), (Limits(cost=0.5), Usage(cost=0.6))],
)
async def test_a_limit_of_tokens_or_money_ends_the_run_with_what_it_has(limits: Limits, usage: Usage) -> None:
    model = ScriptedModel([call("add", a=1, b=1), ReplyFinished(stop="tool_calls", usage=usage)], [text("never")])
    heard = Listener()
    async with Executor([add]) as executor:
        conversation = await Runner(model, executor, limits).run(Conversation().say("go on"), emit=heard)

    assert [message.result.content for message in results(conversation)] == [2]
    assert any(isinstance(event, Notice) and "limit" in event.text for event in heard.events)


async def test_a_limit_of_seconds_ends_a_model_that_does_not_answer() -> None:
    class Silent:
        name = "silent"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            yield TextDelta(text="I think")
            await asyncio.Event().wait()

    async with Executor([add]) as executor:
        conversation = await Runner(Silent(), executor, Limits(seconds=0.02)).run(Conversation().say("?"))

    assert conversation.text == "I think"
    cut = conversation.messages[-1]
    assert isinstance(cut, AssistantMessage)
    assert cut.stop == "max_tokens"


async def test_calls_past_the_limit_of_one_reply_are_answered_and_not_run() -> None:
    ran: list[int] = []

    @tool
    async def note(n: int) -> int:
        ran.append(n)
        return n

    model = ScriptedModel([call("note", n=n) for n in range(5)], [text("done")])
    async with Executor([note]) as executor:
        conversation = await Runner(model, executor, Limits(calls_per_turn=3)).run(Conversation().say("all"))

    assert [message.result.outcome for message in results(conversation)] == ["ok", "ok", "ok", "limit", "limit"]
    assert ran == [0, 1, 2]


async def test_the_same_failing_call_again_and_again_is_not_run_any_more() -> None:
    tries = 0

    @tool
    async def fetch(url: str) -> None:
        nonlocal tries
        tries += 1
        raise ToolError("not_found", "no such page")

    model = ScriptedModel(*([call("fetch", url="x")] for _ in range(5)), [text("I give up")])
    async with Executor([fetch]) as executor:
        conversation = await Runner(model, executor, Limits(iterations=9)).run(Conversation().say("fetch x"))

    assert tries == 3
    assert [message.result.outcome for message in results(conversation)] == ["failed"] * 3 + ["limit"] * 2


@pytest.mark.requirement("converser.errors")
async def test_under_fail_fast_the_user_is_alerted_and_the_conversation_rolled_back() -> None:
    @tool
    async def broken() -> None:
        raise ValueError("kaput")

    journal, heard = MemoryJournal(), Listener()
    begun = Conversation().say("try it")
    async with Executor([broken], journal=journal) as executor:
        runner = Runner(ScriptedModel([call("broken")], [text("fine")]), executor, on_error="fail_fast")
        with pytest.raises(ToolFailed, match="kaput") as caught:
            await runner.run(begun, emit=heard)
        after = await runner.run(caught.value.conversation.say("never mind"))

    assert caught.value.conversation == begun
    assert any(isinstance(event, Notice) and "kaput" in event.text for event in heard.events)
    assert any(isinstance(event, CallSettled) and event.outcome == "failed" for event in journal.events)
    assert after.text == "fine"


async def test_a_read_starts_while_the_model_still_speaks() -> None:
    started, spoken = asyncio.Event(), asyncio.Event()

    @tool
    async def look() -> str:
        started.set()
        await spoken.wait()
        return "seen"

    class Talkative:
        name = "talkative"
        replies = 0

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            self.replies += 1
            if self.replies == 1:
                yield call("look")
                async with asyncio.timeout(30):
                    await started.wait()
                yield TextDelta(text="still talking")
                spoken.set()
            yield ReplyFinished(stop="tool_calls" if self.replies == 1 else "end")

    async with Executor([look]) as executor:
        conversation = await Runner(Talkative(), executor).run(Conversation().say("look"))

    assert [message.result.content for message in results(conversation)] == ["seen"]


async def test_a_side_effect_waits_until_the_reply_is_whole_and_on_record() -> None:
    journal = MemoryJournal()

    @tool(side_effects=True)
    async def pay() -> str:
        return "paid"

    model = ScriptedModel([call("pay"), text("paying now")], [text("done")])
    async with Executor([pay], journal=journal, policy=FREE) as executor:
        await Runner(model, executor).run(Conversation().say("pay"))

    kinds = [type(event) for event in journal.events]
    assert kinds.index(ReplyGiven) < kinds.index(CallIntended)


async def test_a_reply_that_is_cut_off_runs_nothing_and_leaves_no_call_behind() -> None:
    ran: list[str] = []

    @tool(side_effects=True)
    async def pay() -> None:
        ran.append("pay")

    class Cut:
        name = "cut"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            yield call("pay")

    begun = Conversation().say("pay")
    async with Executor([pay], policy=FREE) as executor:
        with pytest.raises(ProtocolError) as caught:
            await Runner(Cut(), executor).run(begun)

    assert (ran, caught.value.conversation) == ([], begun)


async def test_cancelling_a_run_gives_every_call_one_result_the_real_one_if_it_finished() -> None:
    waiting, finished = asyncio.Event(), asyncio.Event()

    @tool(side_effects=True)
    async def quick() -> str:
        finished.set()
        return "paid"

    @tool(side_effects=True)
    async def slow() -> None:
        await finished.wait()
        waiting.set()
        await asyncio.Event().wait()

    seen: list[Conversation] = []
    model = ScriptedModel([call("quick"), call("slow")], [text("never")])
    async with Executor([quick, slow], policy=FREE) as executor:
        runner = Runner(model, executor)
        task = asyncio.create_task(runner.run(Conversation().say("both"), follow=seen.append))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert [(message.result.name, message.result.outcome) for message in results(seen[-1])] == [
        ("quick", "ok"),
        ("slow", "cancelled"),
    ]


@pytest.mark.requirement("hearthnet.tool-choice")
async def test_a_choice_holds_for_the_first_reply_only() -> None:
    model = ScriptedModel([call("add", a=1, b=2)], [text("3")])
    async with Executor([add]) as executor:
        await Runner(model, executor).run(Conversation().say("?"), tool_choice=NamedTool("add"))

    assert [request.tool_choice for request in model.requests] == [NamedTool("add"), "auto"]


async def test_events_are_pushed_as_they_happen_and_offers_are_recorded() -> None:
    journal, heard = MemoryJournal(), Listener()
    model = ScriptedModel([call("add", a=1, b=2)], [text("3")])
    async with Executor([add], journal=journal) as executor:
        await Runner(model, executor).run(Conversation().say("1 + 2?"), emit=heard)

    kinds = [type(event).__name__ for event in heard.events]
    assert kinds[:3] == ["ConversationChanged", "ToolsOffered", "CallRequested"]
    assert kinds[-4:] == ["ToolsOffered", "TextDelta", "ReplyFinished", "ReplyGiven"]
    assert [event.tools for event in journal.events if isinstance(event, ToolsOffered)] == [("add",), ("add",)]


async def test_a_tool_that_names_other_models_is_not_offered() -> None:
    @tool(models=("other",))
    async def theirs() -> Any:
        raise NotImplementedError

    model = ScriptedModel([text("hm")])
    async with Executor([add, theirs]) as executor:
        await Runner(model, executor).run(Conversation().say("?"))

    assert [offer.name for offer in model.requests[0].tools] == ["add"]


@pytest.mark.requirement("hearthnet.confirmation")
async def test_a_run_may_wait_with_a_call_for_its_confirmation_and_go_on_when_it_has_come() -> None:
    paid: list[int] = []

    @tool(side_effects=True)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    journal = MemoryJournal()
    model = ScriptedModel([call("pay", amount=5), call("add", a=1, b=2)], [text("done")])
    async with Executor([pay, add], journal=journal) as executor:
        runner = Runner(model, executor, on_wait="pause")
        paused = await runner.run(Conversation().say("pay"))
        request = next(event for event in journal.events if isinstance(event, ConfirmationRequested))
        assert (paid, [message.result.name for message in results(paused)]) == ([], ["add"])
        await executor.answer(executor.run, request.request, allow=True, by="ada")
        ended = await runner.run(paused)

    assert (paid, ended.text) == ([5], "done")
    assert [message.result.name for message in results(ended)] == ["add", "pay"]
