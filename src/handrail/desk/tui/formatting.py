"""Values as the terminal program shows them: harmless, short, and never read as markup. Pure.

What a model or a tool wrote is made visible letter by letter (`core.visible`) and shown as `Content`, which has styles
only where this program gives them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable
from datetime import datetime
from typing import Any, TypeVar

from textual.content import Content
from textual.widget import Widget

from handrail.core.display import (
    count_text as count_text,
    duration_text as duration_text,
    exact_json,
    printable,
    printable_lines,
)
from handrail.core.errors import HandrailError

OUTCOMES = {
    # outcome                sign, style
    "ok": ("✓", "$text-success"),
    "denied": ("⊘", "$text-warning"),
    "cancelled": ("⊘", "$text-warning"),
    "needs_confirmation": ("?", "$text-warning"),
    "in_doubt": ("?", "$text-error"),
}
MUTED = "$foreground 65%"
_FAILED = ("✗", "$text-error")


def sign_of(outcome: str) -> tuple[str, str]:
    """What stands for an outcome, and its style."""
    return OUTCOMES.get(outcome, _FAILED)


def plain(text: str, style: str = "") -> Content:
    """Text of several lines and of anybody, as it is."""
    return Content.styled(printable_lines(text), style) if style else Content(printable_lines(text))


def line(text: str, most: int = 0) -> str:
    """Text of anybody in one line; short, if so many letters are the most. What is cut ends in "…"."""
    start = text[: 4 * most] if most else text
    shown = printable(" ".join(start.split()))
    return shown if not most or (len(shown) <= most and len(start) == len(text)) else shown[: most - 1] + "…"


def inline(arguments: Any, most: int) -> str:
    """The arguments of a call in one short line; a text that says an object as that object."""
    if isinstance(arguments, str):
        arguments = _parsed(arguments)
    if not isinstance(arguments, dict):
        return line(arguments if isinstance(arguments, str) else exact_json(arguments), most)
    return line(" ".join(f"{key}={_brief(value, most)}" for key, value in arguments.items()), most)


def moment(at: int, spelled: str = "%Y-%m-%d %H:%M") -> str:
    """A time in the person's own time zone."""
    try:
        return datetime.fromtimestamp(at / 1000).astimezone().strftime(spelled)
    except (OverflowError, ValueError, OSError):
        return f"{at} ms"  # a time that a damaged file claims


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # it is still being written, or never was JSON


def _brief(value: Any, most: int) -> str:
    # A long text is cut first: an argument may be a whole file.
    return exact_json(value[: 4 * most] if isinstance(value, str) else value, indent=None)


T = TypeVar("T")


async def attempt(at: Widget, work: Awaitable[T]) -> T | None:
    """Awaits the work and shows a refusal; returns the result, or None."""
    try:
        return await work
    except HandrailError as error:
        at.notify(line(str(error)), severity="error", markup=False)
        return None


async def succeeded(at: Widget, work: Awaitable[object]) -> bool:
    """Awaits the work and shows a refusal; returns whether it succeeded."""

    async def done() -> bool:
        await work
        return True

    return await attempt(at, done()) is True
