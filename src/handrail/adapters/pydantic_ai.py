"""Toolsets of pydantic-ai. A run of ours is a conversation of theirs: `conversation_id`.

What a person must decide is put to them as pydantic-ai does it: the run ends with `DeferredToolRequests`, and goes on
with their `approvals`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic_ai import ApprovalRequired, CallDeferred, ModelRetry, RunContext, ToolFailed
from pydantic_ai.messages import ModelRequest
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import from_json, to_jsonable_python

from handrail.adapters.guarded_calls import FrameworkCall, GuardedCalls
from handrail.core.calls import ToolResult
from handrail.core.confirmation import Allow
from handrail.core.errors import TimedOut, UsageError

D = TypeVar("D")

_LATER = 1.0
"""Seconds that the time limit of a tool has in pydantic-ai before ours ends it."""


def guarded(given: Any, calls: GuardedCalls) -> AbstractToolset[Any]:
    if not isinstance(given, AbstractToolset):
        raise UsageError("guard() takes a toolset of pydantic-ai: guard(FunctionToolset([…]), …)")
    return GuardedToolset(given, calls)


@dataclass
class GuardedToolset(WrapperToolset[D]):
    """A toolset whose calls go through our executor."""

    calls: GuardedCalls

    async def get_tools(self, ctx: RunContext[D]) -> dict[str, ToolsetTool[D]]:
        tools = await super().get_tools(ctx)
        return {name: _keeping_arguments(tool) if _is_ours(tool) else tool for name, tool in tools.items()}

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: RunContext[D], tool: ToolsetTool[D]) -> Any:
        if not _is_ours(tool):
            return await super().call_tool(name, tool_args, ctx, tool)
        of_kind = self.calls.tool(
            tool.tool_def.name,
            tool.tool_def.description or "",
            tool.tool_def.parameters_json_schema,
            timeout=None if tool.tool_def.timeout is None else tool.tool_def.timeout + _LATER,
        )
        known = of_kind(False)
        given = _as_json(tool_args)
        if isinstance(tool_args, _Arguments) and known.validator.problems(given):
            given = tool_args.given  # their form in JSON is another one than the schema's

        async def perform(arguments: dict[str, Any]) -> Any:
            changed = arguments != known.complete(given)  # by a person
            validated = _validated(tool, arguments, ctx) if changed else tool_args
            try:
                return await super(GuardedToolset, self).call_tool(name, validated, ctx, tool)
            except ModelRetry as error:
                if isinstance(error.__context__, TimeoutError):
                    raise TimedOut(f"{name!r}: {error.message}") from error
                raise

        call = FrameworkCall(
            id=_call_id(ctx),
            arguments=given,
            run=self.calls.run_of(ctx, ctx.conversation_id),
            perform=perform,
            written=_as_json,
            word=Allow("a person, through pydantic-ai") if ctx.tool_call_approved else None,
            owner=self.calls.owner_of(ctx),
            suspends=(CallDeferred, ApprovalRequired),
        )
        return _returned(call, await self.calls.settle(of_kind, call))


def _returned(call: FrameworkCall, result: ToolResult) -> Any:
    """What the tool gave; or what pydantic-ai raises in its place."""
    if call.raised is not None:
        cause = call.raised.__cause__
        raise cause if isinstance(call.raised, TimedOut) and isinstance(cause, ModelRetry) else call.raised
    match result.outcome:
        case "ok":
            return call.answer(result)
        case "needs_confirmation":
            raise ApprovalRequired(metadata=_metadata(call, result))
        case "invalid_arguments":
            raise ModelRetry(result.text)
    raise ToolFailed(result.text)


def _metadata(call: FrameworkCall, result: ToolResult) -> dict[str, Any]:
    question = call.question
    if question is None:
        return {"message": result.text}
    return {"message": result.text, "run": question.run, "request": question.request, "why": question.why}


def _is_ours(tool: ToolsetTool[Any]) -> bool:
    """Not those that run elsewhere, and not those by which a model gives its answer."""
    return tool.tool_def.kind in ("function", "unapproved")


def _call_id(ctx: RunContext[Any]) -> str:
    """The id of the call, also where a service uses one again later in the conversation."""
    id = ctx.tool_call_id or ""
    parts = (part for message in ctx.messages if isinstance(message, ModelRequest) for part in message.parts)
    times = sum(getattr(part, "tool_call_id", None) == id for part in parts)
    return f"{id}.{times + 1}" if times else id


def _as_json(value: Any) -> Any:
    return to_jsonable_python(value, bytes_mode="base64", serialize_unknown=True)


class _Arguments(dict[str, Any]):
    """Arguments as pydantic-ai validated them, and as the model wrote them."""

    given: dict[str, Any]


class _KeepingValidator:
    """The validator of a tool, which remembers what it was given."""

    def __init__(self, validator: Any) -> None:
        self.validator = validator

    def validate_json(self, input: str | bytes | bytearray, **options: Any) -> Any:
        return _kept(self.validator.validate_json(input, **options), lambda: from_json(input))

    def validate_python(self, input: Any, **options: Any) -> Any:
        return _kept(self.validator.validate_python(input, **options), lambda: dict(input))


def _kept(validated: Any, read: Any) -> Any:
    if not isinstance(validated, dict):
        return validated
    try:
        given = read()
    except ValueError:  # a part of a call that is still being written
        return validated
    kept = _Arguments(validated)
    kept.given = given
    return kept


def _keeping_arguments(tool: ToolsetTool[D]) -> ToolsetTool[D]:
    return replace(tool, args_validator=_KeepingValidator(tool.args_validator))


def _validated(tool: ToolsetTool[Any], arguments: dict[str, Any], ctx: RunContext[Any]) -> dict[str, Any]:
    validated: dict[str, Any] = tool.args_validator.validate_python(arguments, context=ctx.validation_context)
    return validated
