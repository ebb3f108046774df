"""How a question gets to the person behind a client, in either era, and what their answer means."""

from __future__ import annotations

import os
from typing import Self

import mcp_types as types
import msgspec
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from msgspec import Struct
from pydantic import ValidationError

from handrail.core.confirmation import Confirmation, Decision, Defer
from handrail.mcp.server.caller import Request, asks_by_form, caller_of, is_modern, owner_of
from handrail.mcp.server.client_approver import FORM, decision_from_form, question_text
from handrail.mcp.server.definition import McpServerDefinition

LIFE = 900.0
"""Seconds in which a person may answer."""


class RoundState(Struct, frozen=True):
    """What a client carries for us from one round of a call to the next.

    The library seals it (AES-256-GCM, with a key of this process), binds it to method, tool, arguments and
    owner, and refuses what was changed or is too old. Each kind has a tag of its own.
    """

    def written(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        """Reads a sealed question; None if it is of another kind: it was sealed by us, so it belongs to another
        round."""
        try:
            return None if text is None else msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return None


class CallAwaitingConfirmation(RoundState, frozen=True, tag="confirm"):
    """A call that waits for a person's decision."""

    run: str
    call: str
    request: str
    """The question, so that the word is good for no other."""


class CallAwaitingInput(RoundState, frozen=True, tag="input"):
    """A call that waits for input."""

    run: str
    call: str


def state_sealing(served: McpServerDefinition, *, life: float = LIFE) -> RequestStateBoundary:
    """Seals what goes out and opens what comes back, for every method that may take several rounds."""

    def bound_to(request: Request) -> str:
        return owner_of(served, request)

    security = RequestStateSecurity(keys=[os.urandom(32)], ttl=life, bind_principal=bound_to)
    return RequestStateBoundary(security, default_audience=served.name)


KEY = "confirm"
"""The name of the question among the input that a modern call asks for."""


def confirmation_form(question: Confirmation) -> types.ElicitRequestFormParams | None:
    """The question as a form; None if it is too long for one."""
    message = question_text(question)
    if message is None:
        return None
    return types.ElicitRequestFormParams(message=message, requested_schema=question.form or FORM)


def decision_from_result(answer: types.ElicitResult, question: Confirmation, by: str) -> Decision:
    """What a filled-in form says."""
    return decision_from_form(answer.action, answer.content or {}, question, by)


def decided_by(request: Request, principal: str) -> str:
    """The name that goes on record for a decision."""
    client = caller_of(request).client
    return f"{principal} by MCP client {client!r}" if client else f"{principal} by an MCP client"


class MidCallDecider:
    """A client that can be asked while its call waits: the handshake era."""

    def __init__(self, request: Request, by: str) -> None:
        self._request = request
        self._by = by
        self.asked: dict[str, Confirmation] = {}
        """By call: the questions that are too long for a form."""

    async def decide(self, question: Confirmation) -> Decision:
        form = confirmation_form(question)
        if form is None:
            self.asked[question.call_id] = question
            return Defer()
        try:
            answer = await self._request.session.elicit_form(
                form.message, form.requested_schema, related_request_id=self._request.request_id
            )
        except (MCPError, ValidationError):  # it cannot after all, or it is gone: the question stays open
            return Defer()
        return decision_from_result(answer, question, self._by)


class NextRoundDecider:
    """A client that asks when it has our answer, and calls again with theirs: the modern era, or nobody to ask."""

    def __init__(self, by: str, word: tuple[CallAwaitingConfirmation, types.ElicitResult] | None = None) -> None:
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
        return decision_from_result(answer, question, self._by)


def decider_for(
    request: Request, by: str, word: tuple[CallAwaitingConfirmation, types.ElicitResult] | None
) -> MidCallDecider | NextRoundDecider:
    able = not is_modern(request) and asks_by_form(request) and request.session.can_send_request
    return MidCallDecider(request, by) if able else NextRoundDecider(by, word)
