"""Tools out of declarations and the one handler that a query gives for them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from handrail.core.calls import Output
from handrail.core.errors import ToolError, UsageError, describe_exception
from handrail.core.invocation import Invocation
from handrail.rlm.query.openai_forms import definitions_of
from handrail.tools.definition import ToolDefinition
from handrail.tools.handlers import is_async
from handrail.tools.registry import RegisteredTools, registered
from handrail.tools.tool import Tool

ToolHandler = Callable[[str, dict[str, Any]], Any]
"""`tool_handler(name, arguments)`: plain or async, with any JSON as its result."""

Away = Callable[[Invocation], Awaitable[Any]]

DAY = 86_400.0


class ReplHandler(Protocol):
    """A handler that lives in a REPL. Whatever it does to the world is recorded there, so it may run again."""

    async def elsewhere(self, invocation: Invocation) -> Any: ...


def tools_with_handler(tools: Any, handler: ToolHandler | ReplHandler) -> RegisteredTools:
    """The declared tools. All that is known of a handler in this process is that it does something: it runs once.

    A declaration that says `"side_effects": false` has reads, which may begin early and run again after a crash.

    Raises:
        ValueError: A declaration cannot be used.
    """
    away = getattr(handler, "elsewhere", None)
    if away is None and not callable(handler):
        raise ValueError(f"Invalid tool_handler: {type(handler).__name__} cannot be called")
    definitions_of(tools)  # all of them, so that no two have one name
    try:
        return registered(*(_tool(declared, handler, away) for declared in tools))
    except UsageError as error:
        raise ValueError(f"Invalid tools: {error}") from error


def _tool(declared: Mapping[str, Any], handler: Any, away: Away | None) -> Tool:
    (definition,) = definitions_of([declared])
    return _elsewhere(definition, away) if away is not None else _here(definition, _says_effects(declared), handler)


def _says_effects(declared: Mapping[str, Any]) -> bool:
    return any({"side_effects", "annotations"} & table.keys() for table in (declared, declared.get("function", {})))


def _here(definition: ToolDefinition, is_said: bool, handler: ToolHandler) -> Tool:
    if not is_said:
        definition = msgspec.structs.replace(definition, side_effects=True)
    called = _awaited(handler) if is_async(handler) else _called(handler)
    return Tool(definition, called, style="named", share=False)


def _elsewhere(definition: ToolDefinition, handler: Away) -> Tool:
    async def post(invocation: Invocation) -> Output:
        return Output(await handler(invocation))

    facts = {"side_effects": False, "timeout": definition.timeout or DAY}
    definition = msgspec.structs.replace(definition, **facts)
    return Tool(definition, post, style="invocation", isolation="loop", share=False, replays=True)


def _called(handler: ToolHandler) -> ToolHandler:
    def call(name: str, arguments: dict[str, Any]) -> Any:
        try:
            value = handler(name, arguments)
        except Exception as error:
            raise _failure(error) from error
        return _result(value) if inspect.isawaitable(value) else value

    return call


def _awaited(handler: ToolHandler) -> ToolHandler:
    async def call(name: str, arguments: dict[str, Any]) -> Any:
        return await _result(handler(name, arguments))

    return call


async def _result(value: Awaitable[Any]) -> Any:
    try:
        return await value
    except Exception as error:
        raise _failure(error) from error


def _failure(error: Exception) -> ToolError:
    """The document has the words of the exception without its type: `Error executing <name>: <message>`."""
    return error if isinstance(error, ToolError) else ToolError("failed", str(error) or describe_exception(error))
