"""Questions to a client in the types of the SDK, and the line to a client that shakes hands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server.connection import allowed_log_levels
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from handrail.core.errors import ToolError
from handrail.core.tasks import unwrap_exception_group
from handrail.mcp.private_sdk import connection_of
from handrail.mcp.server.caller import Request, asks_by_form, is_modern
from handrail.mcp.server.calls_in_progress import CallInProgress
from handrail.mcp.server.client_questions import (
    PATIENCE,
    Answer,
    ClientAsk,
    DeferredQuestionLine,
    ElicitQuestion,
    Level,
    Question,
    RootsQuestion,
    SampleQuestion,
    read_answer,
)
from handrail.mcp.server.sendable import sendable_json, sendable_text

EXTENSION = "io.modelcontextprotocol/tasks"
LEVEL = "handrail-log-level"
"""Where a connection of the handshake era keeps from which level on it wants messages."""
LEVELS: tuple[Level, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_ANSWERS: Mapping[type, Any] = {
    ElicitQuestion: types.ElicitResult,
    SampleQuestion: types.CreateMessageResult,
    RootsQuestion: types.ListRootsResult,
}


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
        try:
            result = await self._session.send_request(message, _ANSWERS[type(question)], metadata=self._metadata)
        except (MCPError, ValidationError) as error:
            why = error.message if isinstance(error, MCPError) else "what it said cannot be read"
            raise ToolError("client_refused", f"the client did not answer: {why}") from error
        answer = read_answer(question, result.model_dump(by_alias=True, mode="json", exclude_none=True))
        if answer is None:
            raise ToolError("bad_answer", "the client's answer does not fit the form it was asked to fill in")
        return answer


def client_for_call(request: Request, going: CallInProgress, *, may_detach: bool) -> ClientAsk:
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
    )


def deferred_line_for(request: Request, responses: Mapping[str, Any]) -> DeferredQuestionLine | None:
    """How questions of a call get to its client; None is to send them at once."""
    return None if not is_modern(request) and request.session.can_send_request else DeferredQuestionLine(responses)


def wants_log_level(request: Request, level: Level) -> bool:
    """Whether the client asked for messages of this level, in the way of its era."""
    if level not in allowed_log_levels(request.protocol_version, request.meta):
        return False
    least: Level = connection_of(request).state.get(LEVEL, "debug")
    return LEVELS.index(level) >= LEVELS.index(least)


async def set_log_level(request: Request, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Handles `logging/setLevel`, of the handshake era."""
    connection_of(request).state[LEVEL] = params.level
    return types.EmptyResult()
