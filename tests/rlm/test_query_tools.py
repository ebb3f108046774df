"""The tools behind `llm_query` ask each time that they are called, and calls that were given up are put to nobody."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import ToolError
from handrail.core.invocation import Invocation
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.rlm.query.queries import Queries
from handrail.rlm.repl.bridge import ReplBridge
from handrail.rlm.repl.handler_channel import Channels, HandlerChannel, settle_handler_call
from handrail.rlm.repl.query_tools import completions_of, query_tools
from tests.rlm.test_queries import STATS, Echo


async def test_the_same_question_is_asked_as_often_as_code_asks_it() -> None:
    model = Echo()
    calls = [ToolCall(f"c{number}", "llm_query", {"prompt": "dice"}) for number in range(3)]

    async with Executor(query_tools(Queries({}, model), {}), policy=Policy(deduplicator="exact")) as executor:
        await executor.invoke_all(calls[:2], Context(run="r"))
        await executor.invoke(calls[2], Context(run="r"))
        await executor.invoke(calls[0], Context(run="r"))  # the same call again has its answer

    assert model.asked == ["dice"] * 3


async def test_their_results_are_whole_completions() -> None:
    asked: dict[str, Any] = {"prompts": ["a", "b"]}

    async with Executor(query_tools(Queries({}, Echo()), {})) as executor:
        result = await executor.invoke(ToolCall("c", "llm_query_batched", asked), Context(run="r"))

    found = completions_of(asked, result.content)
    assert [(each.prompt, each.response, each.run) for each in found] == [("a", "A", "r.c.0"), ("b", "B", "r.c.1")]


async def test_what_cannot_be_asked_is_refused_with_its_words() -> None:
    async with Executor(query_tools(Queries({}, Echo()), {})) as executor:
        result = await executor.invoke(ToolCall("c", "llm_query", {"prompt": "?", "tools": [STATS]}))

    assert result.error is not None
    assert (result.error.code, result.error.message) == (
        "value_error",
        "tool_handler is required when tools are provided",
    )


def called(id: str, run: str = "") -> Invocation:
    return Invocation(ToolCall(id, "count", {}), {}, Context(run=run))


async def test_a_call_that_was_given_up_is_put_to_nobody() -> None:
    channel = HandlerChannel()
    gone = asyncio.create_task(channel.elsewhere(called("a")))
    there = asyncio.create_task(channel.elsewhere(called("b")))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait({gone})

    waiting = await channel.next()
    settle_handler_call(waiting, {"value": "found"})
    settle_handler_call(waiting, {"value": "too late"})

    assert waiting.ticket == "b" and await there == "found"


class Slow:
    """A caller whose calls take a few turns of the loop to end when they are cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.under_way = 0
        self.until: float | None = None

    async def invoke(
        self, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None = None, *, key: str = ""
    ) -> ToolResult:
        self.under_way += 1
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            self.under_way -= 1
        raise NotImplementedError


async def test_a_bridge_that_is_cancelled_as_it_closes_leaves_nothing_running() -> None:
    caller, channels = Slow(), Channels()
    bridge = ReplBridge(caller, "c", ("llm_query",), channels)
    asked = asyncio.create_task(bridge("llm_query", {"prompt": "?", "tools": [STATS]}))
    await caller.begun.wait()
    asked.cancel()
    closing = asyncio.create_task(bridge.aclose())
    await asyncio.sleep(0)
    closing.cancel()

    with pytest.raises(asyncio.CancelledError):
        await closing
    assert caller.under_way == 0 and channels == {}


@pytest.mark.parametrize("posted", [{"error": "no"}, {"error": ""}, {}, None])
async def test_whatever_code_posts_is_an_answer(posted: Any) -> None:
    channel = HandlerChannel()
    channel.of_batch("r.c")
    asked = asyncio.create_task(channel.elsewhere(called("a", "r.c.7")))

    waiting = await channel.next()
    settle_handler_call(waiting, posted)

    assert (waiting.index, waiting.ticket) == (7, "7.a")
    with pytest.raises(ToolError):
        await asked
