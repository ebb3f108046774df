"""Tools that call tools which run somewhere else."""

from __future__ import annotations

import threading
from typing import Any

from handrail import Executor, Invocation, ToolCall, tool
from tests.execute.isolation import process_tools


async def test_what_a_tool_in_a_thread_calls_is_settled_in_the_loop_of_the_executor() -> None:
    places: list[threading.Thread] = []

    @tool
    async def look() -> str:
        places.append(threading.current_thread())
        return "seen"

    @tool(isolation="thread")
    async def outer(invocation: Invocation) -> Any:
        places.append(threading.current_thread())
        return await invocation.invoke("look", {})

    async with Executor([outer, look]) as executor:
        result = await executor.invoke(ToolCall("1", "outer"))

    assert (result.content, places[1]) == ("seen", threading.current_thread())
    assert places[0] is not places[1]


async def test_a_tool_in_a_process_can_be_called_by_another_tool() -> None:
    @tool(resource=lambda arguments: ("the", "sum"))
    async def outer(invocation: Invocation) -> Any:
        return await invocation.invoke("add", {"a": 2})

    async with Executor([outer, process_tools.add.changed(isolation="process")]) as executor:
        result = await executor.invoke(ToolCall("1", "outer"))

    assert (result.outcome, result.content) == ("ok", 3), result.text
