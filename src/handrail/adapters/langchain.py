"""Tools of LangChain, and a middleware for its agents. A run of ours is a thread of LangGraph: `thread_id`.

What a person must decide is put to them by LangGraph's `interrupt`, in the form of LangChain's own
`HumanInTheLoopMiddleware`; the graph goes on with `Command(resume={"decisions": [{"type": "approve"}]})`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Unpack

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, ToolException
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, interrupt
from pydantic import BaseModel, PrivateAttr, ValidationError
from pydantic_core import to_jsonable_python

from handrail.adapters.guarded_calls import AskedCalls, FrameworkCall, GuardedCalls, GuardOptions, text_with_warnings
from handrail.core.bounded_memory import BoundedMemory
from handrail.core.calls import Problem, ToolResult
from handrail.core.confirmation import Allow, Confirmation, Decision, Deny, Edit
from handrail.core.errors import UsageError
from handrail.core.secret_pointers import restore_masked

_BY = "a person, through LangGraph"
_PATIENCE = 1.0
"""Seconds that a call waits for the one beside it whose answer has come."""


def guarded(given: Any, calls: GuardedCalls) -> list[BaseTool]:
    if not isinstance(given, list) or not all(isinstance(each, BaseTool) for each in given):
        raise UsageError("guard() takes a list of tools of LangChain: guard([tool], …)")
    return [_guarded_tool(each, calls) for each in given]


def _guarded_tool(tool: BaseTool, calls: GuardedCalls) -> BaseTool:
    fields = {name: getattr(tool, name) for name in type(tool).model_fields}
    copied: Any = _guarded_class(type(tool)).model_construct(set(tool.model_fields_set), **fields)
    copied._guard = ToolGuard(tool, calls)
    same: BaseTool = copied
    return same


@lru_cache
def _guarded_class(kind: type[BaseTool]) -> Any:
    """The same kind of tool, whose runs are guarded."""

    class Guarded(kind):  # type: ignore[valid-type, misc]
        _guard: Any = PrivateAttr(None)

        def run(self, tool_input: Any, *args: Any, **options: Any) -> Any:
            return self._guard.run(tool_input, *args, **options)

        async def arun(self, tool_input: Any, *args: Any, **options: Any) -> Any:
            return await self._guard.arun(tool_input, *args, **options)

    Guarded.__name__ = Guarded.__qualname__ = kind.__name__
    return Guarded


class ToolGuard:
    """One tool as LangChain has it, and its calls through our executor."""

    def __init__(self, tool: BaseTool, calls: GuardedCalls) -> None:
        self._tool = tool
        self._calls = calls
        schema = tool.tool_call_schema
        self._type = schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None
        given = self._type.model_json_schema() if self._type is not None else schema
        self._schema: dict[str, Any] = dict(given) if isinstance(given, Mapping) else tool.get_input_jsonschema()
        self._known = calls.tool(tool.name, tool.description, self._schema)

    def run(self, tool_input: Any, *args: Any, **options: Any) -> Any:
        """`BaseTool.run`, through the executor."""
        call, given = self._call(tool_input, options)

        def perform(arguments: dict[str, Any]) -> Any:
            return self._tool.run(_input(tool_input, arguments, given), *args, **options)

        call.perform = perform
        return self.answer(call, self.settle(call), options.get("tool_call_id"))

    async def arun(self, tool_input: Any, *args: Any, **options: Any) -> Any:
        """`BaseTool.arun`, through the executor."""
        call, given = self._call(tool_input, options)

        async def perform(arguments: dict[str, Any]) -> Any:
            return await self._tool.arun(_input(tool_input, arguments, given), *args, **options)

        call.perform = perform
        return self.answer(call, await self.asettle(call), options.get("tool_call_id"))

    def call_of(self, id: str | None, given: dict[str, Any], config: Any, context: Any) -> FrameworkCall:
        """A call by the model, before anything runs; `perform` is still to be set."""
        thread = ensure_config(config).get("configurable", {}).get("thread_id")
        return FrameworkCall(
            id=id or "",
            arguments=self._normal(given),
            run=self._calls.run_of(context, None if thread is None else str(thread)),
            perform=lambda arguments: None,
            written=_as_json,
            owner=self._calls.owner_of(context),
            suspends=(GraphBubbleUp,),
            failure=_failure,
        )

    def _call(self, tool_input: Any, options: dict[str, Any]) -> tuple[FrameworkCall, dict[str, Any]]:
        properties: dict[str, Any] = self._schema.get("properties", {})
        if isinstance(tool_input, str):  # a tool of one argument
            given = {next(iter(properties), "input"): tool_input}
        else:  # without what LangGraph adds: state, store, runtime
            given = {name: value for name, value in tool_input.items() if name in properties}
        config = options.get("config")
        call = self.call_of(options.get("tool_call_id"), given, config, config)
        return call, self.completed(call)

    def completed(self, call: FrameworkCall) -> dict[str, Any]:
        """The arguments with which it runs, unless a person changes them."""
        return self._known(False).complete(call.arguments) if isinstance(call.arguments, dict) else {}

    def _normal(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the tool will read them, where that has the form of the schema; else as they are."""
        plain: dict[str, Any] = _as_json(given)
        if self._type is None:
            return plain
        try:
            read = self._type.model_validate(given).model_dump(mode="json", by_alias=True, exclude_unset=True)
        except (ValidationError, ValueError):
            return plain
        return plain if self._known(False).validator.problems(read) else read

    def settle(self, call: FrameworkCall) -> ToolResult:
        calls, turn = self._calls, task_turn()
        asks, asked = False, AskedCalls()
        if not turn.alone:
            with turn.in_thread:
                asks = calls.wait(calls.waits_for_word(self._known(False), _object(call)))
                asked = calls.wait(calls.questions(call.run)) if turn.answers else asked
                if asks:
                    turn.in_thread.wait_for(lambda: turn.is_open_to(call, asked), _PATIENCE)
                    if (refused := turn.refused(call, self._tool.name, asked)) is not None:
                        return refused
                    try:
                        return self._settled(call, turn, asked, expected=True)
                    finally:
                        turn.in_thread.notify_all()
        return self._settled(call, turn, asked, expected=False)

    def _settled(self, call: FrameworkCall, turn: TaskTurn, asked: AskedCalls, *, expected: bool) -> ToolResult:
        perform = call.perform
        result = self._calls.settle_blocking(self._known, call)
        if (decision := turn.decision(call, result, asked, expected=expected)) is not None:
            call.word, call.perform = decision, perform
            result = self._calls.settle_blocking(self._known, call)
        return result

    async def asettle(self, call: FrameworkCall) -> ToolResult:
        calls, turn = self._calls, task_turn()
        asks, asked = False, AskedCalls()
        if not turn.alone:
            async with turn.in_loop:
                asks = await calls.waits_for_word(self._known(False), _object(call))
                asked = await calls.questions(call.run) if turn.answers else asked
                if asks:
                    if (refused := turn.refused(call, self._tool.name, asked)) is not None:
                        return refused
                    return await self._asettled(call, turn, asked, expected=True)
        return await self._asettled(call, turn, asked, expected=False)

    async def _asettled(self, call: FrameworkCall, turn: TaskTurn, asked: AskedCalls, *, expected: bool) -> ToolResult:
        result = await self._calls.settle(self._known, call)
        if (decision := turn.decision(call, result, asked, expected=expected)) is not None:
            call.word = decision
            result = await self._calls.settle(self._known, call)
        return result

    def answer(self, call: FrameworkCall, result: ToolResult, id: str | None) -> Any:
        """What the tool gave; or a message about why it did not."""
        if call.raised is not None:
            raise call.raised
        if call.performed and (result.outcome == "failed" or call.answer(result) is call.value):
            return call.value
        text = text_with_warnings(result)
        if id:
            status = "success" if result.outcome == "ok" else "error"
            return ToolMessage(text, tool_call_id=id, name=self._tool.name, status=status)
        if result.outcome == "ok":
            return text
        raise ToolException(text)


class GuardMiddleware(AgentMiddleware[Any, Any, Any]):
    """Guards the tools of an agent of LangChain: `create_agent(…, middleware=[GuardMiddleware(journal="agent.db")])`.

    It takes what `guard` takes.
    """

    def __init__(self, **options: Unpack[GuardOptions]) -> None:
        super().__init__()
        self._calls = GuardedCalls(**options)
        self._guards: BoundedMemory[int, ToolGuard] = BoundedMemory(1000, lru=True)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        if request.tool is None:
            return handler(request)
        guard, call = self._guarded(request)
        given = guard.completed(call)
        call.perform = lambda arguments: handler(_request(request, arguments, given))
        answer: ToolMessage | Command[Any] = guard.answer(call, guard.settle(call), request.tool_call["id"])
        return answer

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        if request.tool is None:
            return await handler(request)
        guard, call = self._guarded(request)
        given = guard.completed(call)

        async def perform(arguments: dict[str, Any]) -> Any:
            return await handler(_request(request, arguments, given))

        call.perform = perform
        answer: ToolMessage | Command[Any] = guard.answer(call, await guard.asettle(call), request.tool_call["id"])
        return answer

    def _guarded(self, request: ToolCallRequest) -> tuple[ToolGuard, FrameworkCall]:
        tool = request.tool
        assert tool is not None
        if (guard := self._guards.get(id(tool))) is None:
            guard = self._guards[id(tool)] = ToolGuard(tool, self._calls)
        args, runtime = request.tool_call["args"], request.runtime
        return guard, guard.call_of(_call_id(request), args, runtime.config, runtime)


def _request(request: ToolCallRequest, arguments: dict[str, Any], given: dict[str, Any]) -> ToolCallRequest:
    if arguments == given:
        return request
    return request.override(tool_call={**request.tool_call, "args": arguments})  # a person changed them


def _call_id(request: ToolCallRequest) -> str:
    """The id of the call, also where a service uses one again later in the thread."""
    id, state = request.tool_call["id"] or "", request.state
    messages = state.get("messages", ()) if isinstance(state, dict) else getattr(state, "messages", ())
    times = sum(isinstance(each, ToolMessage) and each.tool_call_id == id for each in messages)
    return f"{id}.{times + 1}" if times else id


def _input(tool_input: Any, arguments: dict[str, Any], given: dict[str, Any]) -> Any:
    if arguments == given:
        return tool_input
    return {**tool_input, **arguments} if isinstance(tool_input, dict) else arguments  # a person changed them


class TaskTurn:
    """What the guarded calls of one task of a graph share while it runs.

    LangGraph tells the answers of a task apart by their order alone. So only one call at a time stops the task; those
    behind it stop it with the same question, and are put on record when it is their turn. An answer is taken by the
    call that was on record as waiting before the task began again, and by no other.
    """

    def __init__(self, task: Any = None) -> None:
        self.task = task
        self.alone: bool = task is None
        """Whether the task has one call only, so that each answer is its own."""
        self.in_thread = threading.Condition()
        self.in_loop = asyncio.Lock()
        self.answers = 0 if task is None else len(task.resume) + (task.get_null_resume(False) is not None)
        """Those that LangGraph has for the task and nobody has taken."""
        self._stopped: GraphInterrupt | None = None

    def is_open_to(self, call: FrameworkCall, asked: AskedCalls) -> bool:
        """Whether a call may be settled: no answer is left that must be for another one, or it was there before."""
        return not self.answers or call.id in asked.known

    def refused(self, call: FrameworkCall, tool: str, asked: AskedCalls) -> ToolResult | None:
        """Why a call cannot ask now, with nothing of it on record; None if it can.

        Raises:
            GraphInterrupt: Another call has stopped the task.
        """
        if self._stopped is not None:
            raise GraphInterrupt(*self._stopped.args)
        if self.is_open_to(call, asked):
            return None
        why = f"{tool!r} did not run: it needs a person's approval, as another call beside it does; call it again now"
        return ToolResult(call.id, tool, why, "needs_confirmation", Problem("needs_confirmation", why))

    def decision(
        self, call: FrameworkCall, result: ToolResult, asked: AskedCalls, *, expected: bool
    ) -> Decision | None:
        """What a person says of a call that waits for their word: LangGraph stops here, and comes back with it. None
        where there is no graph to stop, or where it cannot be told which call an answer is for."""
        question = call.question
        if result.outcome != "needs_confirmation" or question is None:
            return None
        if self._stopped is not None:
            raise GraphInterrupt(*self._stopped.args)
        takes = self.answers and call.id not in asked.suspended
        if takes and (call.asked_now or (not expected and asked.waiting != {call.id})):
            return None
        why = f"{result.text}, because {question.why}" if question.why else result.text
        request = {
            "action_requests": [{"name": question.tool, "args": question.shown, "description": why}],
            "review_configs": [{"action_name": question.tool, "allowed_decisions": ["approve", "edit", "reject"]}],
        }
        try:
            said = interrupt(request)
            for _ in range(self.answers - 1 if takes else 0):  # the others were taken by calls that have run
                said = interrupt(request)
        except GraphInterrupt as stopped:
            self._stopped = stopped
            raise
        except (RuntimeError, KeyError):  # outside of a graph
            return None
        self.answers = 0 if takes else self.answers
        return _read_decision(said, question)


_turns: BoundedMemory[int, TaskTurn] = BoundedMemory(256, lru=True)
_turns_lock = threading.Lock()


def task_turn() -> TaskTurn:
    """The turn of the task in which this is called. Each call of an agent of LangChain has a task of its own; the calls
    of a `ToolNode` behind an edge share one."""
    try:
        config = get_config()
    except RuntimeError:
        return TaskTurn()
    task = config.get("configurable", {}).get("__pregel_scratchpad")
    pushed = tuple(config.get("metadata", {}).get("langgraph_path", ()))[:1] == ("__pregel_push",)
    if pushed or task is None or not hasattr(task, "resume") or not hasattr(task, "get_null_resume"):
        return TaskTurn()
    with _turns_lock:
        known = _turns.get(id(task))
        if known is None or known.task is not task:
            known = _turns[id(task)] = TaskTurn(task)
        return known


def _read_decision(said: Any, question: Confirmation) -> Decision:
    if isinstance(said, Mapping) and isinstance(decisions := said.get("decisions"), list) and len(decisions) == 1:
        said = decisions[0]
    match said:
        case True | "approve" | {"type": "approve"}:
            return Allow(_BY)
        case False | "reject" | {"type": "reject"}:
            return Deny(_BY, said.get("message", "") if isinstance(said, Mapping) else "")
        case {"type": "edit", "edited_action": {"args": dict() as arguments}}:
            return Edit(_BY, restore_masked(arguments, question.shown, question.arguments))
    raise UsageError(
        f"a person approves with Command(resume={{'decisions': [{{'type': 'approve'}}]}}), or 'reject' or 'edit';"
        f" not {said!r}"
    )


def _object(call: FrameworkCall) -> dict[str, Any]:
    return call.arguments if isinstance(call.arguments, dict) else {}


def _as_json(value: Any) -> Any:
    if isinstance(value, ToolMessage):
        return _as_json(value.content)
    if isinstance(value, Command):
        messages = value.update.get("messages", ()) if isinstance(value.update, Mapping) else ()
        found = [each.content for each in messages if isinstance(each, ToolMessage)]
        return _as_json(found[0] if len(found) == 1 else repr(value))
    return to_jsonable_python(value, bytes_mode="base64", serialize_unknown=True)


def _failure(value: Any) -> str | None:
    return str(value.content) if isinstance(value, ToolMessage) and value.status == "error" else None
