"""The network as this node knows it: who is there, who was lost, what is under way, what became of the last calls.

What is not recorded, as the calls of the page itself, is left out: whoever looks would see mostly themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Literal

from handrail.config.values import Config
from handrail.core.ports import Clock, SystemClock
from handrail.desk.call_counts import CallCounts
from handrail.desk.views.values import CapabilityRow, NetworkPage, NodeRow, TraceRow
from handrail.node.bus.capability_providers import CapabilityProvider, ConnectedPeer
from handrail.node.capability_bus import CapabilityBus

_NODES, _CAPABILITIES, _TRACES, _LOOKED_AT = 200, 1_000, 100, 2_000
_WORDS = 300
_LOST_FOR = 600.0
"""Seconds for which a node that is gone is still shown."""
_SET = 1_000
"""Milliseconds by which the two clocks differ once one of them was set."""


class NetworkView:
    def __init__(
        self,
        bus: CapabilityBus,
        config: Callable[[], Config],
        *,
        calls: CallCounts | None = None,
        clock: Clock = SystemClock(),
        pace: float = 1.0,
        older: float = 5.0,
    ) -> None:
        """`pace` is how often one looks, and `older` when another node is asked again meanwhile, in seconds."""
        self._calls = calls or CallCounts()
        """Those of conversations, which are counted with those of the bus."""
        self._bus = bus
        self._config = config
        self._clock = clock
        self._pace = pace
        self._older = older
        self._day = self._began()

    async def changes(self) -> AsyncGenerator[NetworkPage, None]:
        """Yields the state now, and again whenever it has changed."""
        told: NetworkPage | None = None
        while True:
            found = self.now()
            if found != told:
                told = found
                yield found
            await asyncio.sleep(self._pace)

    def now(self) -> NetworkPage:
        bus = self._bus
        peers = bus.neighbours(self._older)
        here = [each for each in bus.registry if each.descriptor.recorded]
        looking = [each for each in bus.registry if not each.descriptor.recorded]
        ours = {each.descriptor.full_name for each in looking}
        stats = [each for name, each in bus.stats().items() if name not in ours]
        return NetworkPage(
            nodes=(self._here(here), *self._others(peers))[:_NODES],
            traces=self._traces(ours),
            under_way=max(0, bus.under_way - sum(each.in_flight for each in looking)) + self._calls.under_way,
            lost=sum(peer.losses for peer in peers),
            answered=sum(each["ok"] for each in stats) + self._calls.answered,
            failed=sum(sum(each["errors"].values()) for each in stats) + self._calls.failed,
        )

    def _here(self, providers: list[CapabilityProvider]) -> NodeRow:
        node, name, rows = self._bus.node_id, self._config().node.name, _capabilities(providers)
        return NodeRow(node_id=node, name=name, local=True, state="here", capabilities=rows, in_flight=_busy(rows))

    def _others(self, peers: tuple[ConnectedPeer, ...]) -> list[NodeRow]:
        found: dict[str, NodeRow] = {}
        for peer in peers:
            for row in self._rows_of_peer(peer):
                if row.node_id not in found or found[row.node_id].state == "lost":
                    found[row.node_id] = row
        return sorted(found.values(), key=lambda row: (row.state == "lost", row.name or "~", row.node_id))

    def _rows_of_peer(self, peer: ConnectedPeer) -> Iterable[NodeRow]:
        """The nodes that are reached by one way."""
        by_node: dict[str, list[CapabilityProvider]] = {}
        for each in peer.providers.values():
            by_node.setdefault(each.node_id, []).append(each)
        for node, providers in by_node.items():
            rows = _capabilities(providers)
            yield NodeRow(
                node_id=node,
                name=self._name(peer, node),
                state="lost" if peer.is_lost else "there",
                capabilities=rows,
                in_flight=_busy(rows),
                seen=self._at(peer.seen),
            )
        since = self._clock.monotonic() - _LOST_FOR
        for node, seen in peer.gone.items():
            if seen >= since:
                yield NodeRow(node_id=node, name=self._name(peer, node), state="lost", seen=self._at(seen))
        if not by_node and peer.name and peer.bus.node_id != self._bus.node_id:
            gone = peer.is_lost or peer.seen == float("-inf")
            state: Literal["lost", "there"] = "lost" if gone else "there"
            yield NodeRow(node_id=peer.bus.node_id, name=peer.name, state=state, seen=self._at(peer.seen))

    def _name(self, peer: ConnectedPeer, node: str) -> str:
        return peer.name if peer.bus.node_id == node else ""

    def _at(self, seen: float) -> int:
        """A moment of the steady clock as one of the day; 0 is never. The same moment is the same one each time."""
        if seen == float("-inf"):
            return 0
        if abs(self._began() - self._day) > _SET:
            self._day = self._began()
        return round(self._day + seen * 1000)

    def _began(self) -> float:
        """The wall-clock time at which the steady clock began."""
        return self._clock.now() - self._clock.monotonic() * 1000

    def _traces(self, ours: set[str]) -> tuple[TraceRow, ...]:
        recent = self._bus.recent_traces(_LOOKED_AT)
        rows = [
            TraceRow(
                at=each.ts,
                trace=each.trace_id,
                capability=f"{each.capability}@{each.version}",
                from_node=each.from_node[:_WORDS],
                to_node=each.to_node,
                result=each.result,
                ms=round(each.ms, 3),
            )
            for each in recent
            if f"{each.capability}@{each.version}" not in ours
        ]
        return tuple(rows[:_TRACES])


def _capabilities(providers: Iterable[CapabilityProvider]) -> tuple[CapabilityRow, ...]:
    rows = [
        CapabilityRow(
            name=each.descriptor.full_name,
            description=each.descriptor.description[:_WORDS],
            in_flight=each.in_flight,
            side_effects=each.descriptor.side_effects,
            streams=each.descriptor.stream_schema is not None,
        )
        for each in providers
    ]
    return tuple(sorted(rows, key=lambda row: row.name)[:_CAPABILITIES])


def _busy(rows: tuple[CapabilityRow, ...]) -> int:
    return sum(row.in_flight for row in rows)
