"""A node on a loopback socket, in the loop of the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from handrail.node.capability_bus import CapabilityBus
from handrail.node.server.node import NodeServer, ServerLimits, SocketLimits
from handrail.node.server.serving import serve

__all__ = ["ServerLimits", "SocketLimits", "SwappableBus", "served"]


class SwappableBus:
    """A bus in the place of another: one node serves many tests, and ending one takes a tenth of a second."""

    def __init__(self) -> None:
        self.bus = CapabilityBus()
        self.url = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bus, name)


@asynccontextmanager
async def served(bus: CapabilityBus | SwappableBus, *, port: int = 0, **facts: Any) -> AsyncIterator[str]:
    """The address of a node that everybody may call, unless `facts` say otherwise."""
    facts.setdefault("limits", ServerLimits(grace=0.2))
    server = NodeServer(bus=cast(CapabilityBus, bus), **{"token_required": False, **facts})
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(server, port=port, ready=address.set_result))
    try:
        await asyncio.wait((serving, address), return_when=asyncio.FIRST_COMPLETED)
        yield address.result() if address.done() else serving.result() or ""
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
