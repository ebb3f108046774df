"""Tools that whoever asks runs itself: the run ends at their calls, and goes on when their results are there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from handrail import Context, Conversation, Executor, Limits, Policy, Runner, ToolResult, tool
from handrail.core.events import CallIntended, CallSettled, ModelEvent
from handrail.core.messages import InvocationMessage, ResultMessage
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.run.history import conversation_of, unanswered_calls
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text

WEATHER = ToolOffer("weather", "What the sky does.", {"type": "object", "properties": {"city": {"type": "string"}}})
ASKED = Conversation().say("1 + 2, and the weather?")
BOTH: list[ModelEvent] = [call("add", "a", a=1, b=2), call("weather", "w", city="Kleve")]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def results(conversation: Conversation) -> dict[str, Any]:
    found = (message.result for message in conversation.messages if isinstance(message, ResultMessage))
    return {result.tool_call_id: result.content for result in found}


async def test_the_run_ends_at_a_call_that_is_answered_elsewhere_and_the_others_are_run() -> None:
    model = ScriptedModel(BOTH, [text("3, and rain.")])
    async with Executor([add]) as executor:
        runner = Runner(model, executor)
        paused = await runner.run(ASKED, external=(WEATHER,))
        assert results(paused) == {"a": 3}
        assert [message.id for message in unanswered_calls(paused)] == ["w"]

        back = paused.add(ResultMessage(ToolResult("w", "weather", "rain")))
        done = await runner.run(back, external=(WEATHER,))

    assert done.text == "3, and rain."
    assert [offer.name for offer in model.requests[0].tools] == ["add", "weather"]


async def test_a_call_that_is_answered_elsewhere_is_on_record_as_asked_for_and_not_as_run() -> None:
    journal = MemoryJournal()
    async with Executor([add], journal=journal) as executor:
        paused = await Runner(ScriptedModel(BOTH), executor).run(ASKED, Context(run="r"), external=(WEATHER,))
    events = await journal.history("r")

    assert {event.call_id for event in events if isinstance(event, CallIntended | CallSettled)} == {"a"}
    assert conversation_of(events) == paused


class Slow(ScriptedModel):
    """Speaks on for a while after its calls, so that what may begin early does."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                yield event
                for _ in range(10):
                    await asyncio.sleep(0)


async def test_a_name_that_is_run_elsewhere_is_never_run_here_even_if_there_is_such_a_tool() -> None:
    ran: list[str] = []

    @tool
    async def weather(city: str) -> str:
        """Ours."""
        ran.append(city)
        return "sun"

    model = Slow(BOTH, BOTH)
    async with Executor([weather]) as executor:
        paused = await Runner(model, executor).run(ASKED, external=(WEATHER,))
        assert ran == [] and [message.id for message in unanswered_calls(paused)] == ["w"]

        await Runner(model, executor, Limits(iterations=1, on_limit="stop")).run(ASKED)

    assert ran == ["Kleve"]  # where nobody else runs it


async def test_when_the_run_is_cancelled_the_call_that_is_answered_elsewhere_stays_open() -> None:
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    journal = MemoryJournal()
    seen: list[Conversation] = []
    async with Executor([wait], journal=journal) as executor:
        model = ScriptedModel([call("wait", "t"), call("weather", "w", city="Kleve")])
        running = asyncio.create_task(
            Runner(model, executor).run(ASKED, Context(run="r"), external=(WEATHER,), follow=seen.append)
        )
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        settled = [event.call_id for event in await journal.history("r") if isinstance(event, CallSettled)]

    assert settled == ["t"]
    assert [message.id for message in unanswered_calls(seen[-1])] == ["w"]


async def test_a_side_effect_beside_it_waits_for_a_person_and_the_model_is_told_later() -> None:
    @tool(side_effects=True)
    async def post() -> str:
        """Put something on the wall."""
        raise NotImplementedError

    model = ScriptedModel([call("post", "p"), call("weather", "w", city="Kleve")])
    async with Executor([post], policy=Policy()) as executor:
        paused = await Runner(model, executor).run(ASKED, external=(WEATHER,))

    [told] = [message.result for message in paused.messages if isinstance(message, ResultMessage)]
    assert told.outcome == "needs_confirmation" and [each.id for each in unanswered_calls(paused)] == ["w"]


async def test_ids_of_our_own_are_never_those_of_the_model() -> None:
    model = ScriptedModel([call("add", "0", a=1, b=2)], [call("add", "0", a=2, b=2)], [text("3 and 4")])
    async with Executor([add]) as executor:
        done = await Runner(model, executor, own_ids=True).run(ASKED)

    made = [message.id for message in done.messages if isinstance(message, InvocationMessage)]
    assert len(set(made)) == 2 and all(id.startswith("call_") for id in made)
    assert list(results(done)) == made


async def test_an_empty_list_of_valid_tools_leaves_none() -> None:
    model = ScriptedModel([call("add", "a", a=1, b=2)], [text("I may not.")])
    async with Executor([add]) as executor:
        runner = Runner(model, executor, valid=((),))
        done = await runner.run(ASKED)

    assert runner.may_call == frozenset() and model.requests[0].tools == ()
    [refused] = [message.result.outcome for message in done.messages if isinstance(message, ResultMessage)]
    assert refused == "forbidden"
