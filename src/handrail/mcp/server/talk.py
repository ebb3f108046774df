"""How a question gets to the person behind a client, in either era, and what their answer means."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit
from handrail.mcp.server.caller import Request, asks_by_form, caller_of, is_modern
from handrail.mcp.server.sayable import sayable
from handrail.mcp.server.state import Round

_LONGEST = 2_000
"""Characters of arguments in a question; who wants to know them all asks their client."""
_FORM = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this call", "default": True}},
}
KEY = "confirm"
"""The name of the question among the input that a modern call asks for."""


def elicitation(question: Confirmation) -> types.ElicitRequestFormParams:
    """The question as a form. Accepting it is the word; the one field is for clients that want one to show."""
    return types.ElicitRequestFormParams(message=_words(question), requested_schema=question.form or _FORM)


def meant(answer: types.ElicitResult, question: Confirmation, by: str) -> Decision:
    """What a filled-in form says. Dismissed is not answered, and what is not plainly yes is no."""
    content = answer.content or {}
    match answer.action:
        case "accept" if question.form is not None:
            return Edit(by, dict(content))
        case "accept" if content.get("allow", True) is True:
            return Allow(by)
        case "cancel":
            return Defer()
    return Deny(by, "declined when asked")


def speaker(request: Request, principal: str) -> str:
    """Who gave a word, for the record."""
    client = caller_of(request).client
    return f"{principal} by MCP client {client!r}" if client else f"{principal} by an MCP client"


class MidCall:
    """A client that can be asked while its call waits: the handshake era."""

    def __init__(self, request: Request, by: str) -> None:
        self._request = request
        self._by = by

    async def decide(self, question: Confirmation) -> Decision:
        form = elicitation(question)
        try:
            answer = await self._request.session.elicit_form(
                form.message, form.requested_schema, related_request_id=self._request.request_id
            )
        except (MCPError, ValidationError):  # it cannot after all, or it is gone: the question stays open
            return Defer()
        return meant(answer, question, self._by)


class NextRound:
    """A client that asks when it has our answer, and calls again with theirs: the modern era, or nobody to ask."""

    def __init__(self, by: str, word: tuple[Round, types.ElicitResult] | None = None) -> None:
        self._by = by
        self._word = word
        self.asked: dict[str, Confirmation] = {}
        """By call: the questions that got no answer in this round."""

    async def decide(self, question: Confirmation) -> Decision:
        self.asked[question.call_id] = question
        if self._word is None or question.form is not None:
            return Defer()
        waits, answer = self._word
        if (waits.run, waits.call, waits.request) != (question.run, question.call_id, question.request):
            return Defer()  # another question than the one they saw
        return meant(answer, question, self._by)


def talk_with(request: Request, by: str, word: tuple[Round, types.ElicitResult] | None) -> MidCall | NextRound:
    able = not is_modern(request) and asks_by_form(request) and request.session.can_send_request
    return MidCall(request, by) if able else NextRound(by, word)


def _words(question: Confirmation) -> str:
    if question.form is not None:
        return sayable(question.description)
    arguments = _shown(question.arguments)
    lines = (
        f"Allow the call of {question.tool!r}?",
        question.description.split("\n", 1)[0],
        f"Arguments: {arguments}",
        f"You are asked because {question.why}." if question.why else "",
    )
    return sayable("\n".join(filter(None, lines)))


def _shown(arguments: dict[str, Any]) -> str:
    text = msgspec.json.encode(arguments).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters in all)"
