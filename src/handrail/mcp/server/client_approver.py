"""The approver that asks the client of the call in flight.

It knows no wire: the server says for each call whom it can ask, and that travels with the task of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Protocol

from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit
from handrail.core.display import exact_json, printable, printable_lines
from handrail.core.ports import Approver
from handrail.mcp.server.sendable import sendable_text


class ClientDecider(Protocol):
    """The way to the person behind one call."""

    async def decide(self, question: Confirmation) -> Decision: ...


class ClientApprover:
    """Put it last, behind standing rules. Outside of a call from a client it defers, or asks `otherwise`."""

    def __init__(self, otherwise: Approver | None = None) -> None:
        self._otherwise = otherwise
        self._talk: ContextVar[ClientDecider | None] = ContextVar("handrail-mcp-talk", default=None)

    @contextmanager
    def during(self, talk: ClientDecider) -> Iterator[None]:
        """Questions that come up in here, and in tasks that are begun in here, go this way."""
        token = self._talk.set(talk)
        try:
            yield
        finally:
            self._talk.reset(token)

    async def decide(self, question: Confirmation) -> Decision:
        talk = self._talk.get()
        if talk is not None:
            return await talk.decide(question)
        return Defer() if self._otherwise is None else await self._otherwise.decide(question)


FORM = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this call", "default": True}},
}
"""Accepting it is the word; the one field is for clients that want one to show."""
LONGEST = 20_000
"""Characters of a question. What is longer cannot be shown in a form, so it cannot be allowed by one."""


def question_text(question: Confirmation) -> str | None:
    """The question as text for a person: every argument in full, short ones first, nothing in it that could deceive.

    None if it is too long for a form. The question then waits for `handrail confirm`.
    """
    if question.form is not None:
        return sendable_text(printable_lines(question.description))
    lines = (
        f"Allow the call of {printable(question.tool)!r}?",
        printable(question.description.split("\n", 1)[0]),
        f"You are asked because {printable(question.why)}." if question.why else "",
        "It runs with exactly these arguments:" if question.arguments else "It has no arguments.",
        *sorted((_argument(name, value) for name, value in question.shown.items()), key=len),
    )
    text = sendable_text("\n".join(filter(None, lines)))
    return text if len(text) <= LONGEST else None


def _argument(name: str, value: Any) -> str:
    """One argument. What is nested in it is indented further, so that it does not look like another argument."""
    return f"  {exact_json(name)}: {exact_json(value)}".replace("\n", "\n  ")


def decision_from_form(
    action: Literal["accept", "decline", "cancel"], values: Mapping[str, Any], question: Confirmation, by: str
) -> Decision:
    """What a filled-in form says. Dismissed is not answered, and what is not plainly yes is no."""
    match action:
        case "accept" if question.form is not None:
            return Edit(by, dict(values))
        case "accept" if values.get("allow", True) is True:
            return Allow(by)
        case "cancel":
            return Defer()
    return Deny(by, "declined when asked")
