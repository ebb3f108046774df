"""A question about a call as the person behind a client reads it, and what their answer means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit
from handrail.mcp.server.sayable import sayable

FORM = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this call", "default": True}},
}
"""Accepting it is the word; the one field is for clients that want one to show."""
_LONGEST = 2_000
"""Characters of arguments in a question; who wants to know them all asks their client."""


def words(question: Confirmation) -> str:
    if question.form is not None:
        return sayable(question.description)
    lines = (
        f"Allow the call of {question.tool!r}?",
        question.description.split("\n", 1)[0],
        f"Arguments: {_shown(question.arguments)}",
        f"You are asked because {question.why}." if question.why else "",
    )
    return sayable("\n".join(filter(None, lines)))


def meant(
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


def _shown(arguments: dict[str, Any]) -> str:
    text = msgspec.json.encode(arguments).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters in all)"
