"""Other buses that this one knows, and what they last said that they have.

They are asked again when somebody wants to know and it is old news; nobody waits for that, unless there is
nothing else to go by.
"""

from __future__ import annotations

import asyncio
import logging

from handrail.core.errors import BusError, UsageError
from handrail.core.ports import Clock
from handrail.node.bus.capability_providers import CapabilityProvider, ConnectedPeer
from handrail.node.bus.interfaces import Bus

STALE = 60.0
"""Seconds after which what a node said of itself is not believed any more."""
PATIENCE = 2.0
"""Seconds that a call waits for stale news to be made fresh."""

logger = logging.getLogger(__name__)


class ConnectedPeers:
    def __init__(self, node_id: str, clock: Clock) -> None:
        self._node_id = node_id
        self._clock = clock
        self._peers: list[ConnectedPeer] = []
        self._asking: dict[int, asyncio.Task[None]] = {}

    @property
    def any(self) -> bool:
        return bool(self._peers)

    async def connect(
        self, bus: Bus, refresh: float, *, keep: bool = False, name: str = "", believed: bool = False
    ) -> None:
        """`keep` is for who comes and goes: it is asked again though it is not there now, or only we are."""
        peer = ConnectedPeer(bus, refresh, name, believed=believed)
        if keep:
            self._add(peer)
        await self._ask(peer)
        if peer.heard and not peer.providers and not keep:
            raise UsageError(f"all it offers is of {self._node_id!r}, as we are; give each node an id of its own")
        self._add(peer)

    def _add(self, peer: ConnectedPeer) -> None:
        self._peers = [*(each for each in self._peers if each.bus is not peer.bus), peer]

    async def disconnect(self, bus: Bus) -> None:
        gone = [each for each in self._peers if each.bus is bus]
        self._peers = [each for each in self._peers if each.bus is not bus]
        await self._stop([task for peer in gone if (task := self._asking.get(id(peer))) is not None])

    def fresh(self) -> list[CapabilityProvider]:
        """What is known now; who was not heard of for a while is asked again, and nobody waits for that."""
        now = self._clock.monotonic()
        for peer in self._peers:
            self._keep_fresh(peer, now)
        return self.providers()

    def all(self, older: float) -> tuple[ConnectedPeer, ...]:
        """Every peer, lost or not. One that was not heard of for a while is asked again, and nobody waits for that."""
        now = self._clock.monotonic()
        for peer in self._peers:
            self._keep_fresh(peer, now, older)
        return tuple(self._peers)

    def providers(self) -> list[CapabilityProvider]:
        """What is known now, and not stale."""
        now = self._clock.monotonic()
        return [each for peer in self._peers if now - peer.seen <= STALE for each in peer.providers.values()]

    async def of(self, name: str, here: list[CapabilityProvider]) -> list[CapabilityProvider]:
        """The other nodes that offer a capability. Stale news is refreshed first if there are none."""
        found = [each for each in self.fresh() if each.descriptor.name == name]
        if not found and not here and self._asking:
            await asyncio.wait(set(self._asking.values()), timeout=PATIENCE)
            found = [each for each in self.providers() if each.descriptor.name == name]
        return found

    def _keep_fresh(self, peer: ConnectedPeer, now: float, older: float | None = None) -> None:
        if now - peer.seen <= (peer.refresh if older is None else older) or id(peer) in self._asking:
            return
        task = self._asking[id(peer)] = asyncio.get_running_loop().create_task(self._ask_again(peer))
        task.add_done_callback(lambda _: self._asking.pop(id(peer), None))

    async def _ask_again(self, peer: ConnectedPeer) -> None:
        try:
            await self._ask(peer)
        except Exception as error:  # nobody waits for it: it is told here or nowhere
            level = logging.DEBUG if peer.is_lost else logging.WARNING  # once; it is asked again at every call
            logger.log(level, "node %s does not say what it has: %s", peer.bus.node_id, _why(error))
            peer.lose()

    async def _ask(self, peer: ConnectedPeer) -> None:
        peer.take(await peer.bus.discover(), self._clock.monotonic(), self._node_id)

    async def aclose(self) -> None:
        self._peers = []
        await self._stop(list(self._asking.values()))

    async def _stop(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _why(error: Exception) -> str:
    return error.code if isinstance(error, BusError) else type(error).__name__
