"""Starting what has processes: whole, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class _AsyncEnterable(Protocol):
    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, *exc: Any) -> Any: ...


async def enter_or_undo(started: _AsyncEnterable) -> None:
    """Enter it. A caller that goes away meanwhile waits until it has begun and has ended again: Monty forgets the
    process of a start that is cancelled, and leaves it there."""
    starting = asyncio.ensure_future(started.__aenter__())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        ending = asyncio.ensure_future(_left(starting, started))
        while not ending.done():
            try:
                await asyncio.wait({ending})
            except asyncio.CancelledError:
                continue
        raise


async def _left(starting: asyncio.Future[Any], started: _AsyncEnterable) -> None:
    await asyncio.wait({starting})
    if starting.exception() is None:
        await started.__aexit__(None, None, None)
