"""Values as the terminal program shows them: harmless, short, and never read as markup. Pure.

What a model or a tool wrote is made visible letter by letter (`core.visible`) and shown as `Content`, which has styles
only where this program gives them.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from textual.content import Content

from handrail.core.visible import block, visible

OUTCOMES = {
    # outcome                sign, style
    "ok": ("✓", "$text-success"),
    "denied": ("⊘", "$text-warning"),
    "cancelled": ("⊘", "$text-warning"),
    "needs_confirmation": ("?", "$text-warning"),
    "in_doubt": ("?", "$text-error"),
}
_FAILED = ("✗", "$text-error")


def sign_of(outcome: str) -> tuple[str, str]:
    """What stands for an outcome, and its style."""
    return OUTCOMES.get(outcome, _FAILED)


def plain(text: str, style: str = "") -> Content:
    """Text of several lines and of anybody, as it is."""
    return Content.styled(block(text), style) if style else Content(block(text))


def line(text: str, most: int = 0) -> str:
    """Text of anybody in one line; short, if so many letters are the most."""
    shown = visible(" ".join(text[: 4 * most if most else None].split()))
    return shown if not most or len(shown) <= most else shown[: most - 1] + "…"


def inline(arguments: Any, most: int) -> str:
    """The arguments of a call in one short line."""
    if not isinstance(arguments, dict):
        return line(arguments if isinstance(arguments, str) else json_text(arguments), most)
    return line(" ".join(f"{key}={_brief(value, most)}" for key, value in arguments.items()), most)


def json_text(value: Any, indent: int | None = 2) -> str:
    """JSON that reads back as the same value, in which no letter can hide or steer the terminal."""
    written = json.dumps(value, indent=indent, ensure_ascii=False)
    if written.isascii():
        return written
    return "".join(each if each == "\n" or visible(each) == each else json.dumps(each)[1:-1] for each in written)


def duration(microseconds: int) -> str:
    seconds = microseconds / 1e6
    if seconds < 0.001:
        return f"{microseconds} µs"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def moment(at: int, spelled: str = "%Y-%m-%d %H:%M") -> str:
    """In the person's own time zone."""
    try:
        return datetime.fromtimestamp(at / 1000).astimezone().strftime(spelled)
    except (OverflowError, ValueError, OSError):
        return f"{at} ms"  # a time that a damaged file claims


def count(number: int, noun: str) -> str:
    """`1 entry`, `2 entries`."""
    if number != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun}"


def _brief(value: Any, most: int) -> str:
    # A long text is cut first: an argument may be a whole file.
    return json_text(value[: 4 * most] if isinstance(value, str) else value, indent=None)
