"""A prompt that asks its client before it is rendered.

It changes nothing, so in the modern era it is simply rendered again with the answers;
the client carries those of earlier rounds for us, sealed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from msgspec import Struct

from handrail.core.errors import ToolError
from handrail.mcp.server.caller import Request, is_modern
from handrail.mcp.server.client_questions import Answer, ClientAsk, Question, read_answer
from handrail.mcp.server.definition import PromptMessage, ServedPrompt
from handrail.mcp.server.question_wire import (
    ImmediateQuestionLine,
    declared_capabilities,
    input_requests_of,
    input_responses_of,
)
from handrail.mcp.server.sendable import sendable_text


class InterviewAnswers(Struct, frozen=True, tag="told"):
    """What was answered in the rounds before."""

    answers: dict[str, Any]

    @classmethod
    def read(cls, text: str | None) -> InterviewAnswers:
        try:
            return cls({}) if text is None else msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return cls({})


class ReplayedQuestionLine:
    """The line of somebody who is asked again from the start: what was answered is answered."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._told = told
        self.open: dict[str, Question] = {}

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        answers = {key: read_answer(question, self._told.get(key)) for key, question in questions.items()}
        self.open = {key: question for key, question in questions.items() if answers[key] is None}
        if self.open:
            raise ToolError("unanswered", "the client has not answered yet")
        return {key: answer for key, answer in answers.items() if answer is not None}


async def render_prompt(
    request: Request, params: types.GetPromptRequestParams, prompt: ServedPrompt, arguments: Mapping[str, str]
) -> Sequence[PromptMessage] | types.InputRequiredResult:
    """What a prompt says, or what it wants to know first."""
    if prompt.interview is None:
        return await prompt.render(arguments)
    told = {**InterviewAnswers.read(params.request_state).answers, **input_responses_of(params)}
    line = ReplayedQuestionLine(told)
    client = ClientAsk(
        line if is_modern(request) else ImmediateQuestionLine(request), capabilities=declared_capabilities(request)
    )
    try:
        return await prompt.interview(arguments, client)
    except ToolError as error:
        if line.open:
            state = msgspec.json.encode(InterviewAnswers(told)).decode()
            return types.InputRequiredResult(input_requests=input_requests_of(line.open), request_state=state)
        code, data = (client.refused.rpc_code, client.refused.data) if client.refused else (types.INTERNAL_ERROR, None)
        raise MCPError(code, sendable_text(error.message), data) from error
