"""What must not be left half done when a caller goes away: writing down what has happened."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

_LONGEST = 15.0
"""Seconds that a cancelled caller waits. A journal gives up sooner; somebody who is told of events may never."""


async def run_to_completion(work: Coroutine[Any, Any, None]) -> None:
    """Do it even if the caller is cancelled meanwhile, however often; then pass the cancellation on.

    Raises:
        Exception: What the work raised, also to a caller that was cancelled: it must know that nothing was written.
    """
    task = asyncio.ensure_future(work)
    until: float | None = None
    loop = asyncio.get_running_loop()
    while not task.done() and (until is None or loop.time() < until):
        try:
            await asyncio.wait({task}, timeout=None if until is None else until - loop.time())
        except asyncio.CancelledError:
            until = until or loop.time() + _LONGEST
    if not task.done():
        task.cancel()
    else:
        task.result()
    if until is not None:
        raise asyncio.CancelledError
