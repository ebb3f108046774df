"""Where calls went that must not run twice: who asks again by the same id is sent the same way.

Only there can anybody say what became of the call. One call of an id is on its way at a time, so that two who ask at
once are not sent to two nodes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from handrail.core.errors import BusError
from handrail.core.ports import Clock
from handrail.node.bus.answered_calls import MOST, SECONDS, Key, wait_for_flight
from handrail.node.bus.capability_providers import CapabilityProvider


class CallPlacements:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._providers: OrderedDict[Key, tuple[CapabilityProvider, float]] = OrderedDict()
        """With when each was noted, the oldest first."""
        self._under_way: dict[Key, tuple[int, asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, key: Key, depth: int, until: float | None) -> AsyncIterator[None]:
        """Wait while the same call is on its way.

        Raises:
            BusError: It takes longer than this caller waits (`timeout`); or it is this very call, sent back by another
                node, so that nothing can come of waiting (`partition`).
        """
        while (flight := self._under_way.get(key)) is not None:
            if depth > flight[0] + 1:  # to another node and back is two hops
                why = "nodes send this call round, and none of them can take it now"
                raise BusError("partition", why, retry_after_ms=250, came_back=True)
            await wait_for_flight(flight[1], until)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way[key] = (depth, future)
        try:
            yield
        finally:
            del self._under_way[key]
            future.set_result(None)

    def at(self, key: Key) -> CapabilityProvider | None:
        """Who has it, or may have."""
        provider, since = self._providers.get(key, (None, 0.0))
        return provider if self._clock.monotonic() - since < SECONDS else None

    def note(self, key: Key, provider: CapabilityProvider) -> None:
        self._providers[key] = (provider, self._clock.monotonic())
        self._providers.move_to_end(key)
        while len(self._providers) > MOST:
            self._providers.popitem(last=False)

    def forget(self, key: Key) -> None:
        """It was surely not begun there."""
        self._providers.pop(key, None)
