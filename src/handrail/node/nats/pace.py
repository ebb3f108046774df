"""The times of the NATS bus: how soon a loss is noticed, and how long to wait for what is lost."""

from __future__ import annotations

from msgspec import Struct


class NatsPace(Struct, frozen=True, kw_only=True):
    """The intervals of heartbeats and leases. The two ends may differ: a worker sends its lease with a call."""

    heartbeat: float = 1.0
    """Seconds between two signs of life of a call under way."""
    missed: int = 3
    """The number of missed heartbeats after which the other end is lost."""
    grace: float = 5.0
    """Seconds for which a caller goes on asking after a call that may have taken effect, and for which a worker goes
    on working for a caller that is not there."""
    gather: float = 0.1
    """Seconds of silence that end a look around for workers, once one has answered."""
    ttl: float = 10.0
    """Seconds for which what was found is believed."""
    connect: float = 5.0
    """Seconds to connect for the first time."""

    @property
    def lease(self) -> float:
        return self.heartbeat * self.missed
