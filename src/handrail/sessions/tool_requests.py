"""A reply that wants tools, as AbstractLLM shows it: the text, the calls, and each call's result once it ran.

The calls here can be changed, unlike `handrail.ToolCall`, because the document
leaves results on them. Running them goes through the executor like everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from handrail import sync
from handrail.core.calls import ToolCall
from handrail.core.ids import NewId, new_id
from handrail.core.jsontext import object_or_text
from handrail.tools.tool import Tool, as_tool

Functions = Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]]
"""Functions by name, or functions and tools that have names."""


@dataclass(slots=True)
class RequestedCall:
    """A call that a model asks for, and its result when there is one."""

    id: str
    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    """An object; if the model wrote no JSON object, its text as it is. Then the call is answered with an error."""
    result: Any = None

    @classmethod
    def of(cls, call: ToolCall, new_id: NewId = new_id) -> RequestedCall:
        return cls(call.id or new_id("call"), call.name, object_or_text(call.arguments))

    @property
    def call(self) -> ToolCall:
        return ToolCall(self.id, self.name, self.arguments)

    def set_result(self, result: Any) -> None:
        self.result = result


@dataclass(slots=True)
class ToolCallRequest:
    """The text of a model before its tool calls, and the calls that it requests."""

    content: str
    tool_calls: list[RequestedCall]
    """A `handrail.ToolCall` is taken too; it becomes a call that can hold its result."""

    def __post_init__(self) -> None:
        given: Iterable[RequestedCall | ToolCall] = self.tool_calls
        self.tool_calls = [RequestedCall.of(each) if isinstance(each, ToolCall) else each for each in given]

    def has_tool_calls(self) -> bool:
        """Whether the model asks for calls."""
        return bool(self.tool_calls)

    def execute_tool_calls(self, tool_functions: Functions) -> None:
        """Run the calls with these functions and leave each result on its call; errors are results.

        Who passes a function here has confirmed it: side effects run.
        """
        execute_tools(self.tool_calls, tool_functions)

    async def execute_tool_calls_async(self, tool_functions: Functions) -> None:
        """The same, while the event loop goes on."""
        await asyncio.to_thread(self.execute_tool_calls, tool_functions)


def execute_tools(tool_calls: Iterable[RequestedCall | ToolCall], tool_functions: Functions) -> list[dict[str, Any]]:
    """`handrail.execute_tools` that also leaves each result on its call, if the call can hold it."""
    tool_calls = list(tool_calls)
    plain = [each.call if isinstance(each, RequestedCall) else each for each in tool_calls]
    results = sync.execute_tools(plain, _named(tool_functions))
    for call, result in zip(tool_calls, results, strict=True):
        if isinstance(call, RequestedCall):
            call.set_result(result["result"])
    return results


def _named(functions: Functions) -> Mapping[str, Callable[..., Any]]:
    if isinstance(functions, Mapping):
        return functions
    tools: list[Tool] = [as_tool(function) for function in functions]
    return {tool.name: tool for tool in tools}
