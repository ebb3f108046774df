"""Ensembles that are prepared for as long as somebody needs them, and the closed set of what they then offer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from handrail.tools.ensemble import Ensemble
from handrail.tools.registry import RegisteredTools, registered

_LONG = 3.0
"""Seconds after which it is told who is waited for."""


@asynccontextmanager
async def prepared_tools(items: Iterable[Any]) -> AsyncIterator[RegisteredTools]:
    """Tools, functions and ensembles as one set, the ensembles prepared: all at once, so the slowest counts.

    Those that were prepared before are somebody else's to close; the others are closed at the end.
    """
    items = tuple(items)
    own = [item for item in items if isinstance(item, Ensemble) and item.state != "prepared"]
    async with AsyncExitStack() as stack:
        await prepare_ensembles(own)
        for ensemble in own:
            stack.push_async_callback(ensemble.close)
        yield registered(*items)


async def prepare_ensembles(ensembles: Iterable[Ensemble], tell: Callable[[str], None] = lambda line: None) -> None:
    """Get all of them ready at once: it takes as long as the slowest. If one cannot be, none is left open.

    Whoever has waited for long is told for whom.

    Raises:
        Exception: The first failure of one of them.
    """
    ensembles = tuple(ensembles)
    tasks = [asyncio.create_task(each.prepare()) for each in ensembles]
    try:
        if tasks:
            done, late = await asyncio.wait(tasks, timeout=_LONG, return_when=asyncio.FIRST_EXCEPTION)
            if late and all(task.exception() is None for task in done):
                names = (each.name for each, task in zip(ensembles, tasks, strict=True) if task in late)
                tell(f"Still waiting for {', '.join(map(repr, names))} …")
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in ensembles), return_exceptions=True)
        raise
