"""Tools that take notes answer as the tools that they stand in for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from handrail import Attachment, Executor, Invocation, Output, Tool, ToolCall, ToolError, ToolResult
from handrail.testing.tools import RecordedTools

VALUES: dict[str, Callable[[], Any]] = {
    "a value": lambda: {"output": 1},
    "an output": lambda: Output("seen", ("careful",), (Attachment("a", "text/plain", b"x"),)),
    "a result": lambda: ToolResult("other", "other", "seen", warnings=("careful",)),
    "an error": lambda: ToolError("NOT_FOUND", "no such city"),
}


def plain(make: Callable[[], Any]) -> Tool:
    def look(city: str) -> Any:
        return make()

    return Tool.from_function(look)


def later(make: Callable[[], Any]) -> Tool:
    async def look(prefix: str, city: str) -> Any:
        return make()

    return Tool.from_function(functools.partial(look, "in "), name="look")


def with_invocation(make: Callable[[], Any]) -> Tool:
    async def look(invocation: Invocation) -> Any:
        return make()

    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    return Tool.from_function(look, schema=schema, style="invocation")


async def asked(tools: Any) -> ToolResult:
    async with Executor(tools) as executor:
        result = await executor.invoke(ToolCall("1", "look", {"city": "Rome"}))
    return msgspec.structs.replace(result, duration_us=0)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("form", [plain, later, with_invocation])
async def test_a_recorded_tool_answers_as_the_real_one(form: Callable[[Callable[[], Any]], Tool], kind: str) -> None:
    recorded = RecordedTools([form(VALUES[kind])])

    assert await asked(recorded.tools) == await asked([form(VALUES[kind])])
    assert recorded.calls == [("look", {"city": "Rome"})]


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("form", [plain, with_invocation])
async def test_an_answer_of_a_test_is_read_as_what_the_tool_returns(
    form: Callable[[Callable[[], Any]], Tool], kind: str
) -> None:
    def never() -> None:
        raise NotImplementedError

    recorded = RecordedTools([form(never)])
    recorded.answer("look", VALUES[kind]())

    assert await asked(recorded.tools) == await asked([form(VALUES[kind])])
