"""Tools that hold the event loop or the interpreter: no timeout can stop them there, so the answer says that it is
late, and the log says who did it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from handrail import Executor, Policy, ToolCall, ToolError, tool
from handrail.execute.isolation import loop_watch
from handrail.testing.journal import MemoryJournal
from tests import holding

HOLD = 1.3
"""Seconds: longer than what the log is not told of, and than a thread takes to start on a busy machine."""


def named(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == loop_watch.__name__]


@pytest.mark.requirement("abstractllm.timeout")
async def test_an_async_tool_that_blocked_past_its_timeout_says_that_it_ran_and_was_late(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool(timeout=0.05)
    async def block() -> str:
        time.sleep(HOLD)  # noqa: ASYNC251 (this is the mistake under test)
        return "done"

    journal = MemoryJournal()
    async with Executor([block], journal=journal) as executor:
        result = await executor.invoke(ToolCall("1", "block"))

    assert (result.outcome, result.content) == ("ok", "done")
    (late,) = result.warnings
    assert late.startswith("late: 'block' ran to its end") and "timeout of 0.05 s" in late
    assert "'block' held the event loop for 1." in late
    (entry,) = named(caplog)
    assert "'block' held the event loop" in entry and "isolation='process'" in entry


@pytest.mark.requirement("abstractllm.timeout")
@pytest.mark.parametrize("work", [holding.match, holding.multiply])
async def test_a_plain_function_that_holds_the_interpreter_says_that_it_ran_and_was_late_and_is_named(
    work: Callable[[int], None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watch, "LOGGED", 0.0)  # how long the work takes is up to the machine

    @tool(timeout=0.5)
    def hold(size: int) -> str:
        work(size)
        return "done"

    call = ToolCall("1", "hold", {"size": holding.size_for_seconds(work)})
    async with Executor([hold]) as executor:
        result = await executor.invoke(call)

    assert (result.outcome, result.content) == ("ok", "done")
    assert result.warnings[0].startswith("late: 'hold' ran to its end")
    assert "'hold' held the event loop" in result.warnings[0]
    assert any("'hold' held the event loop" in entry for entry in named(caplog))


async def test_a_failure_and_a_timeout_that_come_late_say_so_too() -> None:
    @tool(timeout=0.05)
    async def fail() -> None:
        time.sleep(HOLD)  # noqa: ASYNC251
        raise ToolError("NO", "not today")

    @tool(timeout=0.05)
    async def never_end() -> None:
        time.sleep(HOLD)  # noqa: ASYNC251
        await asyncio.Event().wait()

    async with Executor([fail, never_end]) as executor:
        failed = await executor.invoke(ToolCall("1", "fail"))
        timed_out = await executor.invoke(ToolCall("2", "never_end"))

    assert (failed.outcome, timed_out.outcome) == ("failed", "timeout")
    assert failed.warnings[0].startswith("late: 'fail' ran to its end")
    assert timed_out.warnings[0].startswith("late: 'never_end' was answered")


async def test_a_call_that_was_kept_waiting_names_the_tool_that_held_the_loop() -> None:
    waiting = asyncio.Event()

    @tool(timeout=0.05)
    async def wait() -> None:
        waiting.set()
        await asyncio.Event().wait()

    @tool
    async def block() -> None:
        await waiting.wait()
        time.sleep(HOLD)  # noqa: ASYNC251

    async with Executor([wait, block]) as executor:
        kept, holder = await executor.invoke_all([ToolCall("1", "wait"), ToolCall("2", "block")])

    assert kept.outcome == "timeout"
    assert "'block' held the event loop" in kept.warnings[0]
    assert (holder.outcome, holder.warnings) == ("ok", ())


async def test_an_answer_on_time_says_nothing_and_nobody_is_named(caplog: pytest.LogCaptureFixture) -> None:
    go = threading.Event()

    @tool(timeout=0.01)
    def slow() -> None:
        go.wait(30)

    @tool
    async def quick() -> str:
        return "here"

    async with Executor([slow, quick], policy=Policy(timeout=60)) as executor:
        first = await executor.invoke(ToolCall("1", "quick"))
        go.set()

    assert (first.outcome, first.warnings) == ("ok", ())
    assert named(caplog) == []
