"""What became of the last calls, for people who look after a node. It is not the record: it may be lost."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct, to_builtins

from handrail.node.bus.capability_providers import CapabilityProvider


class CallTraceEvent(Struct, frozen=True, kw_only=True):
    """One call that has ended."""

    ts: int
    """Milliseconds since 1970, when it ended."""
    trace_id: str
    capability: str
    version: str
    from_node: str
    to_node: str
    is_local: bool
    result: str
    """`ok`, or the code of the error."""
    ms: float
    tokens_in: int = 0
    tokens_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = to_builtins(self)
        return told


@dataclass(slots=True)
class CapabilityTally:
    """What is counted of one capability, for as long as the node lives."""

    calls: int = 0
    ok: int = 0
    errors: Counter[str] = field(default_factory=Counter)


class TraceRing:
    """The last calls, and counts of all of them."""

    def __init__(self, size: int = 10_000) -> None:
        self._ring: deque[CallTraceEvent] = deque(maxlen=size)
        self._tallies: dict[str, CapabilityTally] = {}

    def add(self, event: CallTraceEvent, known: str | None) -> None:
        """`known` is the full name of the capability, unless nobody has it: what strangers make up is not counted."""
        self._ring.append(event)
        if known is None:
            return
        tally = self._tallies.get(known)
        if tally is None:
            tally = self._tallies[known] = CapabilityTally()
        tally.calls += 1
        if event.result == "ok":
            tally.ok += 1
        else:
            tally.errors[event.result] += 1

    def recent(self, n: int = 50) -> list[CallTraceEvent]:
        """The newest first."""
        return [self._ring[-1 - at] for at in range(min(max(0, n), len(self._ring)))]

    def stats(self, providers: list[CapabilityProvider]) -> dict[str, dict[str, Any]]:
        """The counts of each capability, by its full name."""
        told: dict[str, dict[str, Any]] = {}
        for provider in providers:
            name = provider.descriptor.full_name
            tally = self._tallies.get(name) or CapabilityTally()
            told[name] = {
                "calls": tally.calls,
                "ok": tally.ok,
                "errors": dict(tally.errors),
                "in_flight": provider.in_flight + told.get(name, {}).get("in_flight", 0),
                "p50_ms": provider.health.milliseconds(0.5),
                "p99_ms": provider.health.milliseconds(0.99),
            }
        return told


def topology(node_id: str, providers: list[CapabilityProvider], now: float) -> dict[str, list[dict[str, Any]]]:
    """The capabilities of each node, and how they do."""
    nodes: dict[str, list[dict[str, Any]]] = {node_id: []}
    for each in providers:
        nodes.setdefault(each.node_id, []).append(
            {
                "capability": each.descriptor.full_name,
                "is_local": each.is_local,
                "in_flight": each.in_flight,
                "max_concurrent": each.descriptor.max_concurrent,
                "success": round(each.health.success, 3),
                "quarantined": each.health.quarantined_until > now,
            }
        )
    return nodes
