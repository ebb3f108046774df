"""Numbers for Prometheus, counted from what the bus says of each call that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from handrail.node.bus.call_trace import CallTraceEvent
    from handrail.node.capability_bus import CapabilityBus

_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class CallMetrics:
    """Counts the calls of one bus, from when it is made."""

    def __init__(self, bus: CapabilityBus) -> None:
        self._bus = bus
        self._registry = own = CollectorRegistry()
        self._requests = Counter("hearthnet_requests", "Calls that ended", ["capability", "result"], registry=own)
        self._seconds = Histogram(
            "handrail_request_seconds", "How long calls took", ["capability"], buckets=_SECONDS, registry=own
        )
        self._tokens = Counter("handrail_tokens", "Tokens of models", ["capability", "direction"], registry=own)
        self._in_flight = Gauge("handrail_in_flight", "Calls under way", registry=own)
        self._in_flight.set_function(lambda: float(bus.under_way))
        bus.listeners.append(self.count)

    def count(self, event: CallTraceEvent) -> None:
        # A label for every name that somebody makes up would never be forgotten.
        known = event.result == "ok" or self._bus.registry.of(event.capability)
        name = event.capability if known else "unknown"
        self._requests.labels(name, event.result).inc()
        self._seconds.labels(name).observe(event.ms / 1000)
        for direction, tokens in (("in", event.tokens_in), ("out", event.tokens_out)):
            if tokens:
                self._tokens.labels(name, direction).inc(tokens)

    def text(self) -> bytes:
        return generate_latest(self._registry)
