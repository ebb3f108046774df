"""Waiting for what nothing announces: another process, a screen, a counter. Only this module sleeps to look again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE = 60.0
"""Seconds until a wait gives up: far more than any of them takes, also on a busy machine."""
_PAUSE = 0.01


async def until(condition: Callable[[], object], *, seconds: float = PATIENCE) -> None:
    """Returns when the condition holds.

    Raises:
        TimeoutError: It did not hold in time.
    """
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # nothing announces it
            await asyncio.sleep(_PAUSE)


async def until_asked(condition: Callable[[], Awaitable[object]], *, seconds: float = PATIENCE) -> None:
    """Like `until`, for a condition that has to be awaited."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110  # nothing announces it
            await asyncio.sleep(_PAUSE)


async def until_still(value: Callable[[], object], *, seconds: float = PATIENCE) -> None:
    """Returns when a value has not changed for a fifth of a second: nothing moves any more."""
    before: object = object()
    async with asyncio.timeout(seconds):
        while before != (now := value()):
            before = now
            await asyncio.sleep(20 * _PAUSE)


def blocking_until(condition: Callable[[], object], *, seconds: float = PATIENCE) -> bool:
    """Whether the condition came to hold in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(_PAUSE)
    return True
