"""The loop, with a scripted model and real tools."""

from __future__ import annotations

from handrail import Conversation, Executor, Limits, Runner, tool
from handrail.core.events import CallSettled, Event, TextDelta, ToolsOffered
from handrail.core.messages import AssistantMessage, ResultMessage
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_model_calls_a_tool_reads_the_result_and_answers() -> None:
    model = ScriptedModel([text("Let me see. "), call("add", a=1, b=2)], [text("It is 3.")])
    async with Executor([add]) as executor:
        conversation = await Runner(model, executor).run(Conversation().say("1 + 2?"))

    asked, told = conversation.messages[1], conversation.messages[2]
    assert isinstance(asked, AssistantMessage)
    assert isinstance(told, ResultMessage)
    assert (asked.text, told.results[0].content, conversation.text) == ("Let me see. ", 3, "It is 3.")
    assert [tool.name for tool in model.requests[0].tools] == ["add"]
    assert model.requests[1].messages == conversation.messages[:3]


async def test_a_model_that_reads_its_mistake_can_correct_itself_in_the_same_run() -> None:
    model = ScriptedModel([call("add", a="one", b=2)], [call("add", a=1, b=2)], [text("3")])
    async with Executor([add]) as executor:
        conversation = await Runner(model, executor).run(Conversation().say("1 + 2?"))

    outcomes = [message.results[0].outcome for message in conversation.messages if isinstance(message, ResultMessage)]
    assert outcomes == ["invalid_arguments", "ok"]


async def test_reused_ids_are_told_apart_and_both_calls_run() -> None:
    model = ScriptedModel([call("add", "x", a=1, b=1), call("add", "x", a=2, b=2)], [text("done")])
    async with Executor([add]) as executor:
        conversation = await Runner(model, executor).run(Conversation().say("both"))

    told = conversation.messages[2]
    assert isinstance(told, ResultMessage)
    assert [result.content for result in told.results] == [2, 4]


async def test_at_the_limit_the_model_is_asked_once_more_without_tools() -> None:
    model = ScriptedModel([call("add", a=1, b=1)], [call("add", a=2, b=2)], [text("enough"), call("add", a=3, b=3)])
    async with Executor([add]) as executor:
        conversation = await Runner(model, executor, Limits(iterations=2)).run(Conversation().say("go on"))

    assert conversation.text == "enough"
    assert (model.requests[2].tools, model.requests[2].tool_choice) == ((), "none")
    assert conversation.messages[-1] == AssistantMessage("enough")


async def test_events_are_pushed_as_they_happen_and_offers_are_recorded() -> None:
    events: list[Event] = []

    async def listen(event: Event) -> None:
        events.append(event)

    journal = MemoryJournal()
    model = ScriptedModel([call("add", a=1, b=2)], [text("3")])
    async with Executor([add], journal=journal) as executor:
        await Runner(model, executor).run(Conversation().say("1 + 2?"), emit=listen)

    assert [type(event).__name__ for event in events] == [
        "ToolsOffered",
        "CallRequested",
        "CallIntended",
        "CallSettled",
        "ToolsOffered",
        "TextDelta",
    ]
    assert [event.tools for event in journal.events if isinstance(event, ToolsOffered)] == [("add",), ("add",)]
    assert isinstance(events[3], CallSettled)
    assert isinstance(events[-1], TextDelta)
