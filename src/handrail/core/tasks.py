"""What asyncio lacks: the one exception of a group, and work that a cancelled caller does not leave half done."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any


def unwrap_exception_group(group: BaseExceptionGroup[BaseException], kind: type[Exception]) -> BaseException:
    """The first exception of a group, if all are of that kind; else the group.

    `except*` cannot do it: up to Python 3.11.3 whatever is raised inside of it reaches the caller in a group.
    """
    every_one = all(isinstance(error, kind) for error in group.exceptions)
    return group.exceptions[0] if every_one else group


_LONGEST = 15.0
"""Seconds: a journal gives up sooner; somebody who is told of events may never."""


async def run_to_completion(work: Coroutine[Any, Any, None], longest: float | None = _LONGEST) -> None:
    """Finish the work even if the caller is cancelled meanwhile, however often; then pass the cancellation on.

    A cancelled caller waits at most `longest` seconds; then the work is cancelled too. None means no limit.

    Raises:
        Exception: What the work raised, also to a caller that was cancelled: it must know that nothing was written.
    """
    task = asyncio.ensure_future(work)
    loop, until, cancelled = asyncio.get_running_loop(), math.inf, False
    while not task.done() and loop.time() < until:
        try:
            await asyncio.wait({task}, timeout=None if until == math.inf else until - loop.time())
        except asyncio.CancelledError:
            if longest is not None and not cancelled:
                until = loop.time() + longest
            cancelled = True
    if not task.done():
        task.cancel()
    else:
        task.result()
    if cancelled:
        raise asyncio.CancelledError
