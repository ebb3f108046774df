"""A middleware for the agents of agent-framework. A run of ours is a session of theirs: `session_id`.

What a person must decide is put to them as agent-framework does it: the run ends with a `function_approval_request`
among its `user_input_requests`, and goes on with the response to it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from agent_framework import (
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    FunctionTool,
    MiddlewareTermination,
    UserInputRequiredException,
)
from pydantic_core import to_jsonable_python

from handrail.adapters.guarded_calls import FrameworkCall, GuardedCalls, GuardOptions, text_with_warnings
from handrail.core.calls import ToolResult
from handrail.core.confirmation import Allow
from handrail.core.errors import UsageError
from handrail.tools.tool import Tool


def guarded(given: Any, calls: GuardedCalls) -> list[FunctionTool]:
    """A tool of agent-framework is told neither its session nor that a person approved the call; a middleware is."""
    raise UsageError(
        "the tools of agent-framework are guarded by a middleware of their agent:"
        " Agent(client, tools=[…], middleware=[GuardFunctionMiddleware(journal=…)])"
    )


class GuardFunctionMiddleware(FunctionMiddleware):
    """Every call of an agent's function tools, also of those from MCP servers, goes through our executor.

    Args:
        options: What `guard` takes beside the tools.
    """

    def __init__(self, **options: Unpack[GuardOptions]) -> None:
        self._calls = GuardedCalls(**options)

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        function = context.function
        of_kind = self._calls.tool(function.name, function.description, function.parameters())
        given = _given(function, context)
        ended: MiddlewareTermination | None = None

        async def perform(arguments: dict[str, Any]) -> Any:
            nonlocal ended
            if arguments != of_kind(False).complete(given):
                context.arguments = arguments  # a person changed them
            try:
                await call_next()
            except MiddlewareTermination as error:  # another middleware ends the loop, and this is its last result
                ended = error
            if _is_request(context.result):
                raise _AskedMeanwhile
            return context.result

        known = None if context.session is None else context.session.session_id
        call = FrameworkCall(
            id=context.metadata.get("function_call_occurrence_id") or context.metadata.get("call_id") or "",
            arguments=given,
            run=self._calls.run_of(context, known),
            perform=perform,
            written=_as_json,
            word=Allow("a person, through agent-framework") if _is_approved(context) else None,
            owner=self._calls.owner_of(context),
            suspends=(UserInputRequiredException, _AskedMeanwhile),
        )
        result = await self._calls.settle(of_kind, call)
        if call.raised is not None and not isinstance(call.raised, _AskedMeanwhile):
            raise call.raised
        if call.raised is None:
            context.result = _returned(call, result, of_kind(False), context)
        if ended is not None:
            raise ended


class _AskedMeanwhile(Exception):
    """Another middleware puts the call to a person."""


def _is_request(value: Any) -> bool:
    return isinstance(value, Content) and value.type == "function_approval_request"


def _is_approved(context: FunctionInvocationContext) -> bool:
    """Whether a person said yes to this call. agent-framework has held their word to what it asked them."""
    said = context.metadata.get("approval_response")
    return isinstance(said, Content) and said.type == "function_approval_response" and said.approved is True


def _given(function: FunctionTool, context: FunctionInvocationContext) -> dict[str, Any]:
    """The arguments in the form of the schema: agent-framework has read them into Python's types."""
    fields = {} if function.input_model is None else function.input_model.model_fields
    plain: dict[str, Any] = _as_json(context.arguments)
    return {(fields[name].alias if name in fields else None) or name: value for name, value in plain.items()}


def _returned(call: FrameworkCall, result: ToolResult, tool: Tool, context: FunctionInvocationContext) -> Any:
    """What the tool gave, in this process or before; or the question to a person; or why it did not run."""
    if result.outcome == "ok":
        value = call.answer(result)
        return _from_record(value) if value is not call.value else value
    if result.outcome != "needs_confirmation" or call.question is None:
        return text_with_warnings(result)
    asked = Content.from_function_call(
        call_id=context.metadata["call_id"], name=tool.name, arguments=call.arguments, id=call.id
    )  # agent-framework runs what stands here
    question = call.question
    more = {"message": result.text, "run": question.run, "request": question.request, "why": question.why}
    return Content.from_function_approval_request(id=call.id, function_call=asked, additional_properties=more)


def _as_json(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(each, Content) for each in value):
        if len(value) == 1 and value[0].type == "text":
            return value[0].text
        value = [each.to_dict(exclude={"raw_representation"}) for each in value]
    return to_jsonable_python(value, bytes_mode="base64", serialize_unknown=True)


def _from_record(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(each, dict) and "type" in each for each in value):
        return [Content.from_dict(each) for each in value]
    return value
