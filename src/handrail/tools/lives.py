"""Ensembles that are prepared for as long as somebody needs them, and the closed set of what they then offer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from handrail.tools.ensemble import Ensemble
from handrail.tools.registry import RegisteredTools, registered


@asynccontextmanager
async def alive(items: Iterable[Any]) -> AsyncIterator[RegisteredTools]:
    """Tools, functions and ensembles as one set, the ensembles prepared: all at once, so the slowest counts.

    Those that were prepared before are somebody else's to close; the others are closed at the end.
    """
    items = tuple(items)
    own = [item for item in items if isinstance(item, Ensemble) and item.state != "prepared"]
    async with AsyncExitStack() as stack:
        await _prepared(own, stack)
        yield registered(*items)


async def _prepared(ensembles: list[Ensemble], stack: AsyncExitStack) -> None:
    tasks = [asyncio.ensure_future(ensemble.prepare()) for ensemble in ensembles]
    for ensemble in ensembles:
        stack.push_async_callback(ensemble.close)
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
