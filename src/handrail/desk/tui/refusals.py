"""Asking the desk for something that it may refuse: the person reads why, and the screen stays as it was."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from textual.widget import Widget

from handrail.core.errors import HandrailError
from handrail.desk.tui.formatting import line

T = TypeVar("T")


async def done_or_notified(at: Widget, work: Awaitable[object]) -> bool:
    """Whether it was done."""
    try:
        await work
    except HandrailError as error:
        _tell(at, error)
        return False
    return True


async def result_or_notified(at: Widget, work: Awaitable[T]) -> T | None:
    """What came of it; None if it was refused."""
    try:
        return await work
    except HandrailError as error:
        _tell(at, error)
        return None


def _tell(at: Widget, error: HandrailError) -> None:
    at.notify(line(str(error)), severity="error", markup=False)
