"""prompts/* and completion: prompts with their arguments checked, and what arguments may become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from handrail.core.errors import HandrailError, ToolError
from handrail.mcp.server.caller import Request, is_modern, may_use, principal_of
from handrail.mcp.server.client_questions import Answer, ClientAsk, Question, read_answer
from handrail.mcp.server.deciders import RoundState
from handrail.mcp.server.definition import McpServerDefinition, PromptMessage, ServedPrompt
from handrail.mcp.server.question_wire import (
    ImmediateQuestionLine,
    declared_capabilities,
    input_requests_of,
    input_responses_of,
)
from handrail.mcp.server.resources import McpResourceMethods
from handrail.mcp.server.results import attachment_block, page_of
from handrail.mcp.server.sendable import sendable_text

_MOST_VALUES = 100
"""The most values of a completion, as the protocol has it."""


class McpPromptMethods:
    def __init__(self, served: McpServerDefinition, resources: McpResourceMethods) -> None:
        self._served = served
        self._resources = resources

    async def listed(self, request: Request, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        shown, more = page_of(self._offered(request), params)
        return types.ListPromptsResult(prompts=[_listed(prompt) for prompt in shown], next_cursor=more)

    async def get(
        self, request: Request, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        prompt = self._find(request, params.name)
        arguments = params.arguments or {}
        if problems := _problems(prompt, arguments):
            raise MCPError(types.INVALID_PARAMS, sendable_text(f"prompt {prompt.name!r}: {'; '.join(problems)}"))
        try:
            said = await render_prompt(request, params, prompt, arguments)
        except HandrailError as error:
            raise MCPError(types.INTERNAL_ERROR, sendable_text(str(error))) from error
        if isinstance(said, types.InputRequiredResult):
            return said
        messages = [_message(each, prompt.name) for each in said]
        return types.GetPromptResult(description=prompt.description or None, messages=messages)

    async def complete(self, request: Request, params: types.CompleteRequestParams) -> types.CompleteResult:
        values = await self._values(request, params)
        shown = [sendable_text(value) for value in values[:_MOST_VALUES]]
        return types.CompleteResult(
            completion=types.Completion(values=shown, total=len(values), has_more=len(values) > len(shown))
        )

    async def _values(self, request: Request, params: types.CompleteRequestParams) -> list[str]:
        name, value = params.argument.name, params.argument.value
        if isinstance(params.ref, types.ResourceTemplateReference):
            allowed = may_use(principal_of(self._served, request), f"resource:{params.ref.uri}")
            return await self._resources.complete(params.ref.uri, name, value) if allowed else []
        prompt = self._find(request, params.ref.name)
        others = (params.context.arguments if params.context else None) or {}
        return [] if prompt.complete is None else list(await prompt.complete(name, value, others))

    def _find(self, request: Request, name: str) -> ServedPrompt:
        for prompt in self._offered(request):
            if prompt.name == name:
                return prompt
        raise MCPError(types.INVALID_PARAMS, sendable_text(f"Unknown prompt: {name}"))

    def _offered(self, request: Request) -> tuple[ServedPrompt, ...]:
        principal = principal_of(self._served, request)
        return tuple(prompt for prompt in self._served.prompts if may_use(principal, f"prompt:{prompt.name}"))


def _listed(prompt: ServedPrompt) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=each.name, description=each.description or None, required=each.required)
        for each in prompt.arguments
    ]
    return types.Prompt(name=prompt.name, description=prompt.description or None, arguments=arguments)


def _problems(prompt: ServedPrompt, given: Mapping[str, str]) -> list[str]:
    known = {each.name for each in prompt.arguments}
    missing = [each.name for each in prompt.arguments if each.required and each.name not in given]
    unknown = sorted(given.keys() - known)
    return [
        *(f"the argument {name!r} is missing" for name in missing),
        *(f"it has no argument {name!r}; it has {', '.join(sorted(known)) or 'none'}" for name in unknown),
    ]


def _message(said: PromptMessage, name: str) -> types.PromptMessage:
    content: types.ContentBlock
    if isinstance(said.content, str):
        content = types.TextContent(text=sendable_text(said.content))
    else:
        content = attachment_block(said.content, name)
    return types.PromptMessage(role=said.role, content=content)


class InterviewAnswers(RoundState, frozen=True, tag="told"):
    """What was answered in the rounds before."""

    answers: dict[str, Any]


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
    before = InterviewAnswers.read(params.request_state)
    told = {**(before.answers if before else {}), **input_responses_of(params)}
    line = ReplayedQuestionLine(told)
    client = ClientAsk(
        line if is_modern(request) else ImmediateQuestionLine(request), capabilities=declared_capabilities(request)
    )
    try:
        return await prompt.interview(arguments, client)
    except ToolError as error:
        if line.open:
            state = InterviewAnswers(told).written()
            return types.InputRequiredResult(input_requests=input_requests_of(line.open), request_state=state)
        code, data = (client.refused.rpc_code, client.refused.data) if client.refused else (types.INTERNAL_ERROR, None)
        raise MCPError(code, sendable_text(error.message), data) from error
