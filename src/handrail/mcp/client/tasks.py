"""Tools that take long: the client's side of the extension `io.modelcontextprotocol/tasks` (SEP-2663).

A server may answer a call with a task instead of a result. The task is asked
for until it has ended, what it wants to know is answered by the same callbacks
as in an ordinary call, and a caller who gives up tells the server. A task
outlives its connection: `FollowedCall` has what it takes to go on over a new one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
from mcp import MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientRequestContext, ClientSession
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    CreateMessageRequest,
    ElicitRequest,
    EmptyResult,
    ErrorData,
    ListRootsRequest,
    Request,
    RequestParams,
    Result,
    TextContent,
)
from pydantic import Field, TypeAdapter

from handrail.core.errors import McpError

logger = logging.getLogger(__name__)

IDENTIFIER = "io.modelcontextprotocol/tasks"
Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
_ENDED: frozenset[Status] = frozenset({"completed", "failed", "cancelled"})
_FAREWELL = 5.0
"""Seconds for telling a server that nobody waits any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPollingPace:
    """How often a task may be asked for, whatever its server proposes, and how often it may ask back."""

    usual: float = 1.0
    """Seconds, where the server proposes nothing."""
    shortest: float = 0.05
    longest: float = 30.0
    rounds: int = 10

    def wait(self, proposed: int | None) -> float:
        return self.usual if proposed is None else min(max(proposed / 1000, self.shortest), self.longest)


@dataclass(slots=True)
class FollowedCall:
    """One call that may become a task: what is known of it, for whoever shows progress or lost the connection."""

    server: str = ""
    """Its name, for errors."""
    on_status: Callable[[str, str], None] | None = None
    """Called with each new status and its words."""
    task: str | None = None
    """The task's id; from here on the call must not be sent again, only asked for."""
    ended: bool = False
    """Whether we know how the task ended, or that it does because we said so."""
    seen: tuple[str, str] = ("", "")
    answered: set[str] = field(default_factory=set)
    pace: TaskPollingPace = field(default_factory=TaskPollingPace)

    @property
    def under_way(self) -> bool:
        """Whether the server works on it still, as far as anybody knows."""
        return self.task is not None and not self.ended

    def note(self, status: str, words: str) -> None:
        if (status, words) != self.seen:
            self.seen = (status, words)
            if self.on_status is not None:
                self.on_status(status, words)


_following: ContextVar[FollowedCall | None] = ContextVar("handrail_mcp_task", default=None)


@contextmanager
def follow_call(followed: FollowedCall) -> Iterator[FollowedCall]:
    """Calls made in this block note there what becomes of them. One call per block."""
    token = _following.set(followed)
    try:
        yield followed
    finally:
        _following.reset(token)


class CreatedTask(Result):
    """The answer to `tools/call` that is not yet a result."""

    result_type: Literal["task"]
    task_id: str
    status: Status = "working"
    status_message: str | None = None
    ttl_ms: int | None = None
    poll_interval_ms: int | None = None


class _TaskAnswer(Result):
    """The answer to `tasks/get`."""

    task_id: str
    status: Status
    status_message: str | None = None
    poll_interval_ms: int | None = None
    result: dict[str, Any] | None = None
    error: ErrorData | None = None
    input_requests: dict[str, Any] = Field(default_factory=dict)


class _TaskIdParams(RequestParams):
    task_id: str


class _TaskUpdateParams(_TaskIdParams):
    input_responses: dict[str, Any]


class _GetTaskRequest(Request[_TaskIdParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"


class _UpdateTaskRequest(Request[_TaskUpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    name_param = "taskId"


class _CancelTaskRequest(Request[_TaskIdParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"


_ASKED: TypeAdapter[CreateMessageRequest | ListRootsRequest | ElicitRequest] = TypeAdapter(
    CreateMessageRequest | ListRootsRequest | ElicitRequest
)


class TasksClientExtension(ClientExtension):
    """Given to the SDK's client, it makes a task look like a call that takes long."""

    identifier = IDENTIFIER

    def __init__(self, pace: TaskPollingPace = TaskPollingPace()) -> None:
        self._pace = pace

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=self._resolve),)

    async def _resolve(self, created: CreatedTask, context: ClaimContext) -> CallToolResult:
        followed = _following.get() or FollowedCall()
        followed.task, followed.pace = created.task_id, self._pace
        followed.note(created.status, created.status_message or "")
        wait = self._pace.wait(created.poll_interval_ms) if created.status == "working" else 0.0
        return await finish_task(context.session, followed, wait)


class _TaskGivenUp(MCPError):
    """We will not go on with a task that the server still works on."""


async def finish_task(session: ClientSession, followed: FollowedCall, wait: float = 0.0) -> CallToolResult:
    """Ask for a task until it has ended. It goes on over any connection to the same server.

    Raises:
        MCPError: the task failed, or what it asked was refused.
        McpError: the server does not know it any more, so nobody knows what came of it.
    """
    assert followed.task is not None
    try:
        return await _asked_for(session, followed, followed.task, wait)
    except BaseException as error:
        if isinstance(error, _TaskGivenUp) or not isinstance(error, MCPError | McpError):
            followed.ended = isinstance(error, _TaskGivenUp)
            await _farewell(session, followed.task)
        raise


async def _asked_for(session: ClientSession, followed: FollowedCall, name: str, wait: float) -> CallToolResult:
    rounds, pace = 0, followed.pace
    while True:
        await anyio.sleep(wait)
        task = await _looked_up(session, followed.server, name)
        followed.note(task.status, task.status_message or "")
        if task.status in _ENDED:
            followed.ended = True
            return _result(task)
        # A server may still list what it was told a moment ago.
        asked = {key: value for key, value in task.input_requests.items() if key not in followed.answered}
        if task.status == "input_required" and asked:
            rounds += 1
            if rounds > pace.rounds:
                raise _TaskGivenUp(INTERNAL_ERROR, f"the task asked for input more than {pace.rounds} times")
            answers = {key: await _answer(session, key, request) for key, request in asked.items()}
            await session.send_request(
                _UpdateTaskRequest(params=_TaskUpdateParams(task_id=name, input_responses=answers)), EmptyResult
            )
            followed.answered.update(answers)
        wait = pace.wait(task.poll_interval_ms)


async def _looked_up(session: ClientSession, server: str, name: str) -> _TaskAnswer:
    try:
        return await session.send_request(_GetTaskRequest(params=_TaskIdParams(task_id=name)), _TaskAnswer)
    except MCPError as error:
        if error.code != INVALID_PARAMS:
            raise
        why = f"it took the call as task {name!r} and does not know that any more ({error.message})"
        raise McpError(server, why) from error


async def _answer(session: ClientSession, key: str, request: Any) -> dict[str, Any]:
    asked = _ASKED.validate_python(request)
    context = ClientRequestContext(session=session, request_id=key, meta=asked.params.meta if asked.params else None)
    answer = await session.dispatch_input_request(context, asked)
    if isinstance(answer, ErrorData):
        raise _TaskGivenUp(answer.code, answer.message, answer.data)
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def _result(task: _TaskAnswer) -> CallToolResult:
    match task.status:
        case "completed":
            return CallToolResult.model_validate(task.result or {"content": []}, by_name=False)
        case "failed":
            error = task.error or ErrorData(code=INTERNAL_ERROR, message=task.status_message or "the task failed")
            raise MCPError.from_error_data(error)
    words = ": ".join(filter(None, ("the server cancelled the task", task.status_message)))
    return CallToolResult(content=[TextContent(text=words)], is_error=True)


async def _farewell(session: ClientSession, name: str) -> None:
    """Tell the server that nobody waits any more, whatever is going on around us."""
    with anyio.move_on_after(_FAREWELL, shield=True):
        try:
            await session.send_request(_CancelTaskRequest(params=_TaskIdParams(task_id=name)), EmptyResult)
        except Exception as error:
            logger.info("the server could not be told to stop task %s: %s", name, error)
