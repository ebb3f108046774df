"""A node's tools may change while it runs: what has begun goes on as it began."""

from __future__ import annotations

from handrail import Executor, Limits, Runner, ToolCall, tool
from handrail.core.context import Context
from handrail.core.events import RunStarted
from handrail.core.messages import Conversation
from handrail.run.offering import Offering
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, text
from handrail.tools.registry import registered


@tool
def old() -> str:
    return "old"


@tool
def new() -> str:
    return "new"


BEFORE, AFTER = registered(old), registered(new)


async def test_a_run_keeps_the_tools_it_began_with_and_the_next_has_the_new_ones() -> None:
    async with Executor(BEFORE) as executor:
        first = await executor.invoke(ToolCall("1", "old"), Context(run="a"))
        executor.renew(AFTER)

        assert first.content == "old"
        assert (await executor.invoke(ToolCall("2", "old"), Context(run="a"))).content == "old"
        assert (await executor.invoke(ToolCall("3", "new"), Context(run="a"))).outcome == "unknown_tool"
        assert (await executor.invoke(ToolCall("4", "new"), Context(run="b"))).content == "new"
        assert (await executor.invoke(ToolCall("5", "old"), Context(run="b"))).outcome == "unknown_tool"


async def test_a_run_that_ended_is_taken_up_with_the_new_tools() -> None:
    async with Executor(BEFORE) as executor:
        await executor.invoke(ToolCall("1", "old"), Context(run="a"))
        executor.renew(AFTER)
        await executor.finish("a", "reloaded")

        assert (await executor.invoke(ToolCall("2", "new"), Context(run="a"))).content == "new"


async def test_the_record_says_which_tools_each_run_had() -> None:
    journal = MemoryJournal()
    async with Executor(BEFORE, journal=journal) as executor:
        await executor.invoke(ToolCall("1", "old"), Context(run="a"))
        executor.renew(AFTER)
        await executor.invoke(ToolCall("2", "new"), Context(run="b"))
        begun = [event for run in "ab" for event in await journal.history(run) if isinstance(event, RunStarted)]

    assert [event.tools for event in begun] == [BEFORE.digest, AFTER.digest]


async def test_a_tool_that_stays_keeps_what_it_remembers() -> None:
    runs = []

    @tool(deduplicator="exact")
    def count() -> int:
        runs.append(1)
        return len(runs)

    async with Executor(registered(count, old)) as executor:
        await executor.invoke(ToolCall("1", "count"), Context(run="a"))
        executor.renew(registered(count, new))

        assert (await executor.invoke(ToolCall("2", "count"), Context(run="a"))).content == 1


async def test_a_runner_offers_a_new_run_the_new_tools() -> None:
    model = ScriptedModel([text("first")], [text("second")], [text("third")])
    async with Executor(BEFORE) as executor:
        runner = Runner(model, executor, Limits())
        await runner.run(Conversation().say("hello"), Context(run="a"))
        executor.renew(AFTER)
        await runner.run(Conversation().say("hello"), Context(run="a"))
        await runner.run(Conversation().say("hello"), Context(run="b"))

    assert [[offer.name for offer in request.tools] for request in model.requests] == [["old"], ["old"], ["new"]]


async def test_a_set_that_grew_too_large_to_be_shown_at_once_can_be_searched() -> None:
    many = registered(*(tool(name=f"tool_{number}", description=f"number {number}")(_nothing) for number in range(5)))
    model = ScriptedModel([text("done")])
    async with Executor(BEFORE) as executor:
        runner = Runner(model, executor, offering=Offering(most=3))
        executor.renew(many)
        await runner.run(Conversation().say("number 4"), Context(run="b"))

    offered = [offer.name for offer in model.requests[0].tools]
    assert "find_tools" in offered and "tool_4" in offered


def _nothing() -> None:
    return None
