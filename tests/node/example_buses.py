"""Small nodes for tests of the bus."""

from __future__ import annotations

from typing import Any

from handrail import CapabilityBus, Principal
from handrail.core.errors import BusError
from handrail.node.bus.descriptor import CapabilityDescriptor, Trust
from handrail.node.bus.request import Caller, RouteRequest
from handrail.testing.clock import FixedClock


def caller(name: str, *scopes: str, trust: Trust = "member") -> Caller:
    """Somebody from outside; without scopes, one who may call everything."""
    return Caller(principal=Principal(name, scopes or None), trust=trust)


class Node(CapabilityBus):
    """A node that offers one capability, counts its calls, and fails when it is told to."""

    def __init__(self, node_id: str, name: str = "work.do", **options: Any) -> None:
        facts = options.pop("facts", {})
        super().__init__(node_id=node_id, **options)
        self.runs = 0
        self.takes = 0.0
        """Seconds, of a clock that stands still otherwise."""
        self.fails: BusError | None = None
        self.register(CapabilityDescriptor(name=name, **facts), self.work)

    async def work(self, request: RouteRequest) -> dict[str, Any]:
        self.runs += 1
        if isinstance(self._clock, FixedClock):
            self._clock.advance(self.takes)
        if self.fails is not None:
            raise self.fails
        return {"output": {"node": self.node_id, "caller": request.caller.id}}


async def asked(bus: CapabilityBus, name: str = "work.do", **how: Any) -> str:
    """Which node answered."""
    node: str = (await bus.call(name, (1, 0), how.pop("body", {}), **how))["output"]["node"]
    return node
