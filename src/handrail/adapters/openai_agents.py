"""Function tools of openai-agents. A run of ours is the conversation that `guard(…, run=…)` names, as the id of a
session; else the `group_id` of the `RunConfig`. A tool is not told which session it is called in.

What a person must decide is put to them as openai-agents does it, by `needs_approval`: the run is interrupted, and goes
on with a state in which the call is approved.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from agents import FunctionTool, RunContextWrapper
from agents.tool import maybe_invoke_function_tool_failure_error_function
from agents.tool_context import ToolContext
from pydantic_core import from_json, to_jsonable_python

from handrail.adapters.guarded_calls import FrameworkCall, GuardedCalls, text_with_warnings
from handrail.core.confirmation import Allow
from handrail.core.errors import UsageError
from handrail.tools.tool import Tool


def guarded(given: Any, calls: GuardedCalls) -> list[FunctionTool]:
    if not isinstance(given, list) or not all(isinstance(each, FunctionTool) for each in given):
        raise UsageError("guard() takes a list of function tools of openai-agents: guard([function_tool(pay)], …)")
    return [_guarded_tool(each, calls) for each in given]


def _guarded_tool(tool: FunctionTool, calls: GuardedCalls) -> FunctionTool:
    known = calls.tool(tool.name, tool.description, tool.params_json_schema)
    raising = _raising(tool)

    async def invoke(context: ToolContext[Any], written: str) -> Any:
        async def perform(arguments: dict[str, Any]) -> Any:
            changed = isinstance(given, dict) and arguments != known(False).complete(given)  # by a person
            return await raising.on_invoke_tool(context, json.dumps(arguments) if changed else written)

        given = _read(written)
        call = FrameworkCall(
            id=context.tool_call_id,
            arguments=given,
            run=calls.run_of(context, None if context.run_config is None else context.run_config.group_id),
            perform=perform,
            written=_as_json,
            word=Allow("a person, through openai-agents") if _is_approved(context) else None,
            owner=calls.owner_of(context),
        )
        result = await calls.settle(known, call)
        if call.raised is not None:
            said = await maybe_invoke_function_tool_failure_error_function(
                function_tool=tool, context=context, error=call.raised
            )
            if said is None:
                raise call.raised
            return said
        return call.answer(result) if result.outcome == "ok" else text_with_warnings(result)

    same = copy.copy(tool)
    same.on_invoke_tool = invoke
    same.needs_approval = _needs_approval(tool, known, calls)
    return same


def _needs_approval(
    tool: FunctionTool, known: Callable[[bool], Tool], calls: GuardedCalls
) -> Callable[[RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]]:
    """Whether the framework asks a person: where the tool says so, or where no rule has an answer."""

    async def needs(context: RunContextWrapper[Any], arguments: dict[str, Any], id: str) -> bool:
        theirs = tool.needs_approval
        if theirs if isinstance(theirs, bool) else await theirs(context, arguments, id):
            return True
        return await calls.waits_for_word(known(False), arguments)

    return needs


def _is_approved(context: ToolContext[Any]) -> bool:
    return context.is_tool_approved(context.tool_name, context.tool_call_id) is True


def _raising(tool: FunctionTool) -> FunctionTool:
    """The same tool, which raises what its function raises: the record tells a failure from a result."""
    try:
        return replace(tool, _failure_error_function=None, _use_default_failure_error_function=False)
    except TypeError:  # another version, which keeps it elsewhere
        return tool


def _read(written: str) -> dict[str, Any] | str:
    """The arguments; or their text as it is, if it is no object: the executor refuses it."""
    try:
        given = from_json(written or "{}")
    except ValueError:
        return written
    return given if isinstance(given, dict) else written


def _as_json(value: Any) -> Any:
    return to_jsonable_python(value, bytes_mode="base64", serialize_unknown=True)
