"""The first step of an async tool is taken where its call is made, and everything in it is as if it were not."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from handrail import Executor, Tool, ToolCall, tool
from handrail.core.calls import ToolResult


async def settled(handler: Tool, name: str = "work") -> ToolResult:
    async with Executor([handler]) as executor:
        return await executor.invoke(ToolCall("1", name), alone=True)


async def test_a_tool_that_never_waits_is_settled_without_a_turn_of_the_loop() -> None:
    @tool
    async def work() -> str:
        return "done"

    turned: list[str] = []
    async with Executor([work]) as executor:
        asyncio.get_running_loop().call_soon(turned.append, "a turn")
        result = await executor.invoke(ToolCall("1", "work"), alone=True)
        assert (result.text, turned) == ("done", [])


async def test_a_tool_that_never_waits_leaves_no_task_behind() -> None:
    @tool
    async def work() -> str:
        return "done"

    async with Executor([work]) as executor:
        assert (await executor.invoke(ToolCall("1", "work"), alone=True)).text == "done"
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_task_that_a_tool_keeps_from_its_first_step_is_one_like_any_other_and_ends() -> None:
    kept: list[asyncio.Task[Any] | None] = []

    @tool
    async def work(looks: bool) -> bool:
        task = asyncio.current_task()
        kept.append(task)
        return looks and task is not None and bool(task.get_name()) and task in asyncio.all_tasks()

    async with Executor([work]) as executor:
        looked = await executor.invoke(ToolCall("1", "work", {"looks": True}), alone=True)
        assert looked.content is True
        await executor.invoke(ToolCall("2", "work", {"looks": False}), alone=True)
    for task in kept:
        assert isinstance(task, asyncio.Task)
        await asyncio.wait_for(task, 10)
        assert task.done() and not task.cancelled()


async def test_every_step_of_a_tool_is_in_one_task_that_is_not_its_callers() -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    @tool
    async def work() -> str:
        tasks.append(asyncio.current_task())
        await asyncio.sleep(0)
        tasks.append(asyncio.current_task())
        return "done"

    caller = asyncio.current_task()
    assert (await settled(work)).text == "done"
    assert tasks[0] is tasks[1] is not caller
    assert asyncio.current_task() is caller


@pytest.mark.parametrize("waits_first", [False, True])
async def test_time_outs_and_groups_of_tasks_that_are_begun_in_the_first_step_are_the_tools_own(
    waits_first: bool,
) -> None:
    @tool
    async def work() -> list[str]:
        said: list[str] = []
        if waits_first:
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            said.append("timed out")

        async def fail() -> None:
            raise ValueError

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await asyncio.Event().wait()
        except ExceptionGroup:
            said.append("a task failed")
        return said

    result = await settled(work)
    assert result.content == ["timed out", "a task failed"]


async def test_a_context_variable_that_a_tool_sets_is_its_own_from_the_first_step_on() -> None:
    who = contextvars.ContextVar("who", default="caller")
    seen: list[str] = []

    @tool
    async def work() -> str:
        who.set("tool")
        await asyncio.sleep(0)
        seen.append(who.get())
        return "done"

    await settled(work)
    assert (seen, who.get()) == (["tool"], "caller")


async def test_what_the_first_step_waits_for_is_cancelled_with_the_call() -> None:
    waited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    begun = asyncio.Event()

    @tool
    async def work() -> None:
        begun.set()
        await waited

    async with Executor([work]) as executor:
        call = asyncio.create_task(executor.invoke(ToolCall("1", "work"), alone=True))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert waited.cancelled()


async def test_a_tool_may_catch_being_cancelled_before_its_task_has_run() -> None:
    @tool
    async def work() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            task.uncancel()
        return "went on"

    assert (await settled(work)).text == "went on"


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(1), asyncio.CancelledError(), StopAsyncIteration()])
async def test_whatever_the_first_step_raises_is_the_answer_and_reaches_nobody_else(raised: BaseException) -> None:
    @tool
    async def work() -> None:
        raise raised

    result = await settled(work)
    await asyncio.sleep(0)
    assert (result.outcome, type(raised).__name__ in result.text) == ("failed", True)


async def test_a_tool_that_fails_at_once_and_one_that_fails_later_are_answered_alike() -> None:
    @tool
    async def at_once() -> None:
        raise ValueError("the table is gone")

    @tool
    async def later() -> None:
        await asyncio.sleep(0)
        raise ValueError("the table is gone")

    first, second = await settled(at_once, "at_once"), await settled(later, "later")
    assert first.text.replace("at_once", "later") == second.text
    assert first.error == second.error


async def test_equal_reads_that_are_made_at_once_run_once_also_where_the_tool_never_waits() -> None:
    runs = 0

    @tool
    async def look(n: int) -> int:
        nonlocal runs
        runs += 1
        return runs

    async with Executor([look]) as executor:
        results = await executor.invoke_all([ToolCall(str(i), "look", {"n": 1}) for i in range(3)])

    assert [result.content for result in results] == [1, 1, 1]
    assert runs == 1


async def test_a_loop_that_makes_tasks_of_its_own_kind_still_makes_those_of_tools() -> None:
    made: list[str] = []
    loop = asyncio.get_running_loop()

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(type(coroutine).__name__)
        return asyncio.Task(coroutine, loop=loop, **options)

    @tool
    async def work() -> str:
        return "done"

    loop.set_task_factory(factory)
    try:
        assert (await settled(work)).text == "done"
    finally:
        loop.set_task_factory(None)
    assert len(made) == 1
