"""One call over as many requests as it takes: answered at once, asked about in between, or gone on as a task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.confirmation import Confirmation, Decision, Defer
from handrail.core.context import Context
from handrail.core.errors import HandrailError, ToolError, UsageError
from handrail.core.events import Emit, ProgressListener
from handrail.mcp.server.caller import Request
from handrail.mcp.server.calls_in_progress import CallInProgress, CallsInProgress
from handrail.mcp.server.client_approver import FORM, ClientDecider, decision_from_form, question_text
from handrail.mcp.server.client_questions import (
    KEY,
    REFUSED,
    ClientAsk,
    DeferredQuestionLine,
    ElicitAnswer,
    ElicitQuestion,
)
from handrail.mcp.server.client_runs import ClientRuns
from handrail.mcp.server.deciders import CallAwaitingInput
from handrail.mcp.server.definition import McpServerDefinition
from handrail.mcp.server.passed_calls import PassedCallClient, PassedResults
from handrail.mcp.server.question_wire import (
    client_for_call,
    declared_capabilities,
    deferred_line_for,
    input_requests_of,
)
from handrail.mcp.server.sendable import sendable_json, sendable_text
from handrail.mcp.server.tasks.extension import task_created, unknown_task
from handrail.mcp.server.tasks.store import LONG, ONLY, TaskEnding, TaskStore
from handrail.tools.tool import Tool

Answered = types.CallToolResult | types.InputRequiredResult | dict[str, Any]
"""A result of ours, or one of a server behind us as it came."""
Answer = Callable[[ToolResult], Awaitable[Answered]]
"""What a client is sent for a result."""
LONGEST = 600.0
"""Seconds that a task without a timeout of its own is given beside the time that tasks are kept."""

BUG = "Internal error; the log of the server says more"

logger = logging.getLogger(__name__)


class TaskDecider:
    """The way to a person through the questions of a task."""

    def __init__(self, line: DeferredQuestionLine, by: str) -> None:
        self._line = line
        self._by = by

    async def decide(self, question: Confirmation) -> Decision:
        key, message = f"confirm-{question.request}", question_text(question)
        if message is None:
            return Defer()
        try:
            answers = await self._line.put({key: ElicitQuestion(message=message, form=question.form or FORM)})
        except UsageError:  # it was asked in this task before, and dismissed
            return Defer()
        said = answers[key]
        if not isinstance(said, ElicitAnswer):
            return Defer()
        return decision_from_form(said.action, said.values, question, self._by)


class CallRounds:
    """Begins calls, follows them, and takes them up again."""

    def __init__(
        self, served: McpServerDefinition, runs: ClientRuns, under_way: CallsInProgress, tasks: TaskStore | None
    ) -> None:
        self._served = served
        self._runs = runs
        self._under_way = under_way
        self._tasks = tasks
        self.passed = PassedResults()

    def begin(
        self,
        request: Request,
        call: ToolCall,
        context: Context,
        owner: str,
        talk: ClientDecider,
        responses: Mapping[str, Any],
    ) -> CallInProgress:
        """Start a call in a task of its own: the library cancels over and over, and a call must be cancelled once.

        Raises:
            MCPError: Its tool is for clients with tasks only, or the server ends.
        """
        tool = self._tool(call.name)
        may_detach = (
            "tasks" in declared_capabilities(request) and self._tasks is not None and self._tasks.has_room(owner)
        )
        if tool is not None and ONLY in tool.definition.tags and not may_detach:
            raise (
                unknown_task()
                if "tasks" not in declared_capabilities(request)
                else _refused(UsageError("there are too many tasks"))
            )
        going = CallInProgress(call, context, owner, deferred_line_for(request, responses))
        going.talk = talk
        behind = PassedCallClient(request, going, self.passed)
        going.client = client_for_call(request, going, may_detach=may_detach, behind=behind)
        if may_detach and tool is not None and self._is_long(tool):
            going.detach()
            if going.line is not None and going.client.can("elicitation"):
                going.talk = TaskDecider(going.line, context.principal.id)
        context = replace(context, auxdata={**context.auxdata, KEY: going.client})
        try:
            with self._served.asker.during(going.talk):
                self._under_way.begin(going, self._work(call, context, ProgressListener(going.report)))
            self._runs.begin(context.run)  # before anybody else gets to end the run
        except UsageError as error:
            raise _refused(error) from error
        return going

    def take_up(
        self, left: CallAwaitingInput | None, owner: str, responses: Mapping[str, Any]
    ) -> CallInProgress | None:
        """The call that waits for this input, if it still does."""
        going = None if left is None else self._under_way.take_up(left.call, owner)
        if going is not None and going.line is not None:
            going.line.give(responses)
        return going

    async def follow(self, request: Request, going: CallInProgress, tell: Emit, answer: Answer) -> Answered:
        """Wait for what comes next of a call, and say it."""
        going.follow(request, tell)
        try:
            news = await going.news()
            if news == "detached" and not self._has_room(going):
                going.detached = False
                news = await going.news()
        except asyncio.CancelledError:
            await _cancelled(going)
            raise
        going.leave()
        match news:
            case "done":
                return await answer(_result(going))
            case "detached" if self._tasks is not None:
                return task_created(self._tasks.adopt(going, self._timeout(going), lambda: _ended(going, answer)))
        return self._input(going)

    def _input(self, going: CallInProgress) -> types.InputRequiredResult:
        try:
            self._under_way.leave_waiting(going)
        except UsageError as error:
            raise _refused(error) from error
        state = CallAwaitingInput(going.context.run, going.call.id).written()
        questions = {} if going.line is None else going.line.open
        return types.InputRequiredResult(input_requests=input_requests_of(questions), request_state=state)

    def _has_room(self, going: CallInProgress) -> bool:
        return self._tasks is not None and self._tasks.has_room(going.owner)

    async def _work(self, call: ToolCall, context: Context, emit: Emit) -> ToolResult:
        try:
            return await self._served.invoker.invoke(call, context, emit)
        finally:
            await self._runs.end(context.run)

    def _tool(self, name: str) -> Tool | None:
        tools = self._served.tools()
        try:
            return tools.find(name) if name in tools else None
        except ToolError:
            return None

    def _is_long(self, tool: Tool) -> bool:
        after = float("inf") if self._tasks is None else self._tasks.limits.after
        return bool({LONG, ONLY} & set(tool.definition.tags)) or (tool.definition.timeout or 0.0) > after

    def _timeout(self, going: CallInProgress) -> float:
        tool = self._tool(going.call.name)
        return LONGEST if tool is None else tool.definition.timeout or LONGEST


async def _cancelled(going: CallInProgress) -> None:
    going.cancel()
    with anyio.CancelScope(shield=True):
        await going.wait()
    if (error := going.error) is not None:
        logger.warning("a cancelled call of %r ended with %r", going.call.name, error)


def _result(going: CallInProgress) -> ToolResult:
    """Its result.

    Raises:
        MCPError: It could not be settled, or its tool refused the whole request.
    """
    try:
        result = going.result()
    except HandrailError as error:
        raise _refused(error) from error
    client = going.client
    if isinstance(client, ClientAsk) and client.refused and result.error and result.error.code == REFUSED:
        raise MCPError(client.refused.rpc_code, sendable_text(client.refused.message), client.refused.data)
    return result


async def _ended(going: CallInProgress, answer: Answer) -> TaskEnding:
    """The end of a task, in the words that its call would have been answered with."""
    try:
        result = _result(going)
        if result.outcome == "cancelled":
            return TaskEnding(cancelled=True, note=result.text)
        said = await answer(result)
    except MCPError as error:
        return TaskEnding(
            error=sendable_json(error.error.model_dump(by_alias=True, exclude_none=True)), note=error.message
        )
    except Exception:  # a bug, and yet the task has ended
        logger.exception("a task of %r cannot be answered", going.call.name)
        return TaskEnding(error={"code": types.INTERNAL_ERROR, "message": BUG}, note=BUG)
    written = said if isinstance(said, dict) else said.model_dump(by_alias=True, mode="json", exclude_none=True)
    return TaskEnding(result=sendable_json(written))


def _refused(error: HandrailError) -> MCPError:
    return MCPError(types.INTERNAL_ERROR, sendable_text(str(error)))
