"""A question about a call as the person behind a client reads it, and what their answer means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit
from handrail.core.json_display import exact_json
from handrail.core.safe_text import printable, printable_lines
from handrail.mcp.server.sendable import sendable_text

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
