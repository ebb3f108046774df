"""Like `asyncio.timeout`, but it also works while a cancelled task cleans up.

Up to Python 3.11.3, a timeout that expires in a task that was cancelled before raises `CancelledError` in place of
`TimeoutError` (gh-102780). Debian 12 ships such a Python, and what a node or a client does when it ends runs in such
tasks. So nothing in this package uses `asyncio.timeout` itself; a test holds us to that.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

_RELIABLE = sys.version_info >= (3, 11, 4)


def time_limit(delay: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
    """Like `asyncio.timeout`.

    Raises:
        TimeoutError: On leaving the block, if it took longer than so many seconds.
    """
    scope = asyncio.timeout(delay)
    return scope if _RELIABLE else reliable_timeout(scope)


def time_limit_at(when: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
    """Like `asyncio.timeout_at`: the time is that of the event loop.

    Raises:
        TimeoutError: On leaving the block, if it was left later than that.
    """
    scope = asyncio.timeout_at(when)
    return scope if _RELIABLE else reliable_timeout(scope)


@asynccontextmanager
async def reliable_timeout(scope: asyncio.Timeout) -> AsyncIterator[asyncio.Timeout]:
    """The same timeout: if it expired, and nobody cancelled the task meanwhile, it raises `TimeoutError`."""
    task = asyncio.current_task()
    cancelled_before = task.cancelling() if task is not None else 0
    try:
        async with scope:
            yield scope
    except asyncio.CancelledError as error:
        if task is not None and scope.expired() and task.cancelling() <= cancelled_before:
            raise TimeoutError from error
        raise
