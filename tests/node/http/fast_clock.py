"""A clock for callers that have to wait, and what a stream gave them."""

from __future__ import annotations

import asyncio
from typing import Any

from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.http import HttpBus


class FastClock:
    """A clock on which sleeping takes no time, and says how long it would have been."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._at = 0.0

    def now(self) -> int:
        return 1_700_000_000_000

    def monotonic(self) -> float:
        return self._at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._at += seconds
        await asyncio.sleep(0)


async def frames_of(bus: HttpBus, **input: Any) -> list[StreamFrame]:
    async with asyncio.timeout(30), bus.stream("count.up", (1, 0), {"input": input}) as stream:
        return [frame async for frame in stream]
