"""Events that are pushed, as a stream that is pulled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from handrail.core.events import Emit, Event


async def stream_emitted(work: Callable[[Emit], Coroutine[Any, Any, Any]]) -> AsyncGenerator[Event, None]:
    """Everything that the work emits, then what it raises. Closing the stream cancels the work and waits for it."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    task = asyncio.create_task(work(events.put))
    task.add_done_callback(lambda done: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        await task
    finally:
        task.cancel()
        await asyncio.wait({task})
