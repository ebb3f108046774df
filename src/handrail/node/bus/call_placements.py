"""Remembers where calls were sent that must not run twice: a retry with the same id is sent the same way.

Only there can anybody say what became of the call. One call of an id is on its way at a time, so that two who ask at
once are not sent to two nodes.
"""

from __future__ import annotations

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import BusError
from handrail.core.ports import Clock
from handrail.core.single_flight import Flight, SingleFlight
from handrail.node.bus.answered_calls import MOST, SECONDS, Key, lead
from handrail.node.bus.capability_providers import CapabilityProvider


class CallPlacements:
    def __init__(self, clock: Clock) -> None:
        self.providers = BoundedMemory[Key, CapabilityProvider](MOST, seconds=SECONDS, now=clock.monotonic)
        """Who has a call, or may have it."""
        self._flights: SingleFlight[Key, None] = SingleFlight()

    async def turn(self, key: Key, depth: int, until: float | None) -> Flight[Key, None]:
        """Wait while the same call is on its way; then it is the caller's for one `with` block.

        Raises:
            BusError: It takes longer than this caller waits (`timeout`); or it is this very call, sent back by another
                node, so that nothing can come of waiting (`partition`).
        """

        def may_wait(first: int) -> None:
            if depth > first + 1:  # to another node and back is two hops
                why = "nodes send this call round, and none of them can take it now"
                raise BusError("partition", why, retry_after_ms=250, came_back=True)

        return await lead(self._flights, key, depth, until=until, may_wait=may_wait)
