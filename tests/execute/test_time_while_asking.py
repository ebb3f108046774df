"""A tool that asks a person has its own time only for what it does itself."""

from __future__ import annotations

import asyncio

from handrail import Executor, Invocation, Policy, ToolCall, tool
from handrail.core.context import Context
from handrail.testing.loop import SeededLoop


def run(asked: float, after: float, deadline: float | None = None) -> str:
    """The outcome of a tool with ten seconds that asks somebody for a while and then goes on for a while."""

    async def go() -> str:
        @tool(schema={"type": "object"}, timeout=10)
        async def ask(invocation: Invocation) -> str:
            await asyncio.sleep(5)
            with invocation.waiting():
                with invocation.waiting():
                    await asyncio.sleep(asked / 2)
                await asyncio.sleep(asked / 2)
            await asyncio.sleep(after)
            return "done"

        async with Executor([ask], policy=Policy(timeout=10)) as executor:
            return (await executor.invoke(ToolCall("1", "ask"), Context(deadline=deadline))).outcome

    loop = SeededLoop(1)
    try:
        return loop.run(go())
    finally:
        loop.close()


def test_the_time_in_which_a_person_is_asked_does_not_count() -> None:
    assert run(asked=3_600, after=4) == "ok"


def test_what_is_left_of_its_time_does() -> None:
    assert run(asked=3_600, after=6) == "timeout"


def test_a_short_question_gives_no_more_time_than_it_took() -> None:
    assert run(asked=1, after=6) == "timeout"


def test_the_deadline_of_the_caller_stays() -> None:
    assert run(asked=3_600, after=1, deadline=100) == "timeout"


async def test_a_call_that_waits_for_a_person_keeps_nobody_else_waiting() -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    @tool(schema={"type": "object"}, concurrency=1)
    async def ask(invocation: Invocation) -> str:
        with invocation.waiting():
            asked.set()
            await answered.wait()
        return "answered"

    @tool
    async def work() -> str:
        return "worked"

    async with Executor([ask, work], policy=Policy(concurrency=1)) as executor:
        first = asyncio.create_task(executor.invoke(ToolCall("1", "ask")))
        await asked.wait()
        asked.clear()
        worked = await executor.invoke(ToolCall("2", "work"))
        second = asyncio.create_task(executor.invoke(ToolCall("3", "ask", {"again": True})))
        await asyncio.wait({second}, timeout=0.01)
        at_once = asked.is_set()
        answered.set()
        rest = [await first, await second]

    assert worked.content == "worked"
    assert not at_once, "a tool that runs once at a time does, whoever waits"
    assert [each.content for each in rest] == ["answered", "answered"]
