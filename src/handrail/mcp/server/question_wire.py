"""Questions to a client in the types of the SDK, and the line to a client that shakes hands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server.connection import Connection, allowed_log_levels
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from handrail.core.errors import ToolError
from handrail.core.tasks import unwrap_exception_group
from handrail.mcp.client.server_questions import ClientRefused
from handrail.mcp.sdk_internals import connection_of
from handrail.mcp.server.caller import Request, asks_by_form, is_modern
from handrail.mcp.server.calls_in_progress import CallInProgress
from handrail.mcp.server.client_questions import (
    PATIENCE,
    Answer,
    ClientAsk,
    ClientBehindCall,
    DeferredQuestionLine,
    ElicitQuestion,
    Level,
    PassedAnswer,
    PassedQuestion,
    Question,
    RootsQuestion,
    SampleQuestion,
    read_answer,
)
from handrail.mcp.server.sendable import sendable_json, sendable_text

EXTENSION = "io.modelcontextprotocol/tasks"
LEVEL = "handrail-log-level"
"""The place where a connection of the handshake era keeps the level from which on it wants messages."""
LEVELS: tuple[Level, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_ANSWERS: Mapping[type, Any] = {
    ElicitQuestion: types.ElicitResult,
    SampleQuestion: types.CreateMessageResult,
    RootsQuestion: types.ListRootsResult,
}
_PASSED: Mapping[str, tuple[Any, Any]] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResultWithTools),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}
"""The types of a question that is passed on, and of its answer."""


def question_request(question: Question, key: str) -> types.InputRequest:
    match question:
        case ElicitQuestion(url=None):
            form = types.ElicitRequestFormParams(
                message=sendable_text(question.message), requested_schema=question.form
            )
            return types.ElicitRequest(params=form)
        case ElicitQuestion(url=str() as url):
            return types.ElicitRequest(
                params=types.ElicitRequestURLParams(
                    message=sendable_text(question.message), url=url, elicitation_id=key
                )
            )
        case SampleQuestion():
            said = types.SamplingMessage(role="user", content=types.TextContent(text=sendable_text(question.prompt)))
            return types.CreateMessageRequest(
                params=types.CreateMessageRequestParams(
                    messages=[said],
                    max_tokens=question.max_tokens,
                    system_prompt=sendable_text(question.system) or None,
                )
            )
        case PassedQuestion(method=method, params=params):
            if params.get("mode") == "url":  # each era has the name for it in another place
                params = {"elicitationId": key, **params}
            body = {"params": params} if params else {}
            request: types.InputRequest = _PASSED[method][0].model_validate(body, by_name=False)
            return request
    return types.ListRootsRequest()


def input_requests_of(open: Mapping[str, Question]) -> dict[str, types.InputRequest]:
    """Everything that is open, as a modern result or a task has it."""
    return {key: question_request(question, key) for key, question in open.items()}


def input_responses_of(params: types.InputResponseRequestParams) -> dict[str, Any]:
    """What a client brings, as JSON."""
    responses = params.input_responses or {}
    return {key: each.model_dump(by_alias=True, mode="json", exclude_none=True) for key, each in responses.items()}


def declared_capabilities(request: Request) -> frozenset[str]:
    """What the client of a request can be asked for."""
    said = request.session.client_capabilities
    if said is None:
        return frozenset()
    has = {
        "elicitation": asks_by_form(request),
        "sampling": said.sampling is not None,
        "roots": said.roots is not None,
        "tasks": is_modern(request) and EXTENSION in (said.extensions or {}),
    }
    return frozenset(name for name, able in has.items() if able)


class ImmediateQuestionLine:
    """The line to a client that can be asked while its call waits."""

    def __init__(self, request: Request) -> None:
        self._session = request.session
        self._metadata = ServerMessageMetadata(related_request_id=request.request_id)

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        try:
            async with asyncio.TaskGroup() as group:  # if one is refused, the others need not be answered any more
                sent = {key: group.create_task(self._send(key, each)) for key, each in questions.items()}
        except BaseExceptionGroup as failed:
            raise unwrap_exception_group(failed, ToolError) from None
        return {key: task.result() for key, task in sent.items()}

    async def _send(self, key: str, question: Question) -> Answer:
        message = question_request(question, key)
        passed = isinstance(question, PassedQuestion)
        kind = _PASSED[question.method][1] if isinstance(question, PassedQuestion) else _ANSWERS[type(question)]
        try:
            result = await self._session.send_request(message, kind, metadata=self._metadata)
        except (MCPError, ValidationError) as error:
            if passed and isinstance(error, MCPError):
                raise ClientRefused(error.code, error.message, error.data) from error
            why = error.message if isinstance(error, MCPError) else "what it said cannot be read"
            raise ToolError("client_refused", f"the client did not answer: {why}") from error
        said = result.model_dump(by_alias=True, mode="json", exclude_none=not passed, exclude_unset=passed)
        answer = read_answer(question, said)
        if answer is None:
            raise ToolError("bad_answer", "the client's answer does not fit the form it was asked to fill in")
        return answer


async def pass_question(request: Request, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What the client of a request says to a question of another server, both as they came.

    Raises:
        ToolError: It cannot be asked in the middle of a request, or it refused.
    """
    if is_modern(request) or not request.session.can_send_request:
        raise ClientRefused(types.METHOD_NOT_FOUND, "the client cannot be asked while it waits for an answer")
    answers = await ImmediateQuestionLine(request).put({method: PassedQuestion(method=method, params=params)})
    answer = answers[method]
    assert isinstance(answer, PassedAnswer)
    return answer.result


def client_for_call(
    request: Request, going: CallInProgress, *, may_detach: bool, behind: ClientBehindCall | None = None
) -> ClientAsk:
    """The client of a call, for the handler of the call. What it is told goes to the request that waits then."""
    capabilities = declared_capabilities(request)

    async def log(level: Level, data: Any, logger: str) -> None:
        now: Request | None = going.request
        if now is not None and wants_log_level(now, level):
            said = types.LoggingMessageNotificationParams(level=level, data=sendable_json(data), logger=logger or None)
            await now.session.send_notification(
                types.LoggingMessageNotification(params=said), related_request_id=now.request_id
            )

    async def pause() -> None:
        now: Request | None = going.request
        if now is not None and now.close_sse_stream is not None:
            await now.close_sse_stream()

    return ClientAsk(
        going.line or ImmediateQuestionLine(request),
        capabilities=capabilities,
        log=log,
        pause=pause,
        detach=going.detach if may_detach and "tasks" in capabilities else None,
        patience=lambda: None if going.detached else PATIENCE,
        behind=behind,
    )


def deferred_line_for(request: Request, responses: Mapping[str, Any]) -> DeferredQuestionLine | None:
    """Gives the line for a call's questions to its client; None sends them at once."""
    return None if not is_modern(request) and request.session.can_send_request else DeferredQuestionLine(responses)


def wants_log_level(request: Request, level: Level) -> bool:
    """Whether the client asked for messages of this level, in the way of its era."""
    if level not in allowed_log_levels(request.protocol_version, request.meta):
        return False
    return connection_wants(connection_of(request), level)


def connection_wants(connection: Connection, level: Any) -> bool:
    """Whether a client of the handshake era asked for messages of this level; it gets what nobody can rank."""
    least: Level = connection.state.get(LEVEL, "debug")
    return level not in LEVELS or LEVELS.index(level) >= LEVELS.index(least)


async def set_log_level(request: Request, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Handles `logging/setLevel`, of the handshake era."""
    connection_of(request).state[LEVEL] = params.level
    return types.EmptyResult()
