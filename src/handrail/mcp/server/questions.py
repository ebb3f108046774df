"""A question about a call as the person behind a client reads it, and what their answer means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit
from handrail.core.exact import exact
from handrail.core.visible import block, visible
from handrail.mcp.server.sayable import sayable

FORM = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this call", "default": True}},
}
"""Accepting it is the word; the one field is for clients that want one to show."""
LONGEST = 20_000
"""Characters of a question. What is longer cannot be shown in a form, so it cannot be allowed by one."""


def words(question: Confirmation) -> str | None:
    """The question as text for a person: every argument in full, short ones first, nothing in it that could deceive.

    None if it is too long for a form. The question then waits for `handrail confirm`.
    """
    if question.form is not None:
        return sayable(block(question.description))
    lines = (
        f"Allow the call of {visible(question.tool)!r}?",
        visible(question.description.split("\n", 1)[0]),
        f"You are asked because {visible(question.why)}." if question.why else "",
        "It runs with exactly these arguments:" if question.arguments else "It has no arguments.",
        *sorted((_argument(name, value) for name, value in question.shown.items()), key=len),
    )
    text = sayable("\n".join(filter(None, lines)))
    return text if len(text) <= LONGEST else None


def _argument(name: str, value: Any) -> str:
    """One argument. What is nested in it is indented further, so that it does not look like another argument."""
    return f"  {exact(name)}: {exact(value)}".replace("\n", "\n  ")


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
