"""Retries of calls: they are answered by whoever had them, and never begun if nobody knows whether they ran.

A client that lost its connection asks again with the same id. A node that was started again in between has
forgotten the first time; what must not be done twice it does not do, and says that nobody knows. Where replicas share
one record, it says what became of the call, whichever of them had it: then it is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import BusError, Outcome
from handrail.core.ports import Clock, SystemClock
from handrail.node.server.stream_replay import CallKey

if TYPE_CHECKING:
    from handrail.node.capability_bus import CapabilityBus
    from handrail.node.server.envelope import CallEnvelope

SECONDS = 300.0
"""The time that retries are recognised: less than the bus remembers answers, so that it can answer them."""
MOST = 5_000


class RecentCallIds:
    """The calls that this process was asked for recently."""

    def __init__(self, clock: Clock = SystemClock(), *, shared_record: bool = False) -> None:
        """`shared_record` is whether whoever else may have been asked records where this process does."""
        self._shared_record = shared_record
        self._met = BoundedMemory[CallKey, None](MOST, seconds=SECONDS, now=clock.monotonic)

    def check(self, bus: CapabilityBus, envelope: CallEnvelope, key: CallKey) -> None:
        """Note a call that may begin here.

        Raises:
            BusError: It was put before, not to this process, and may have been done (`partition`, `in_doubt`).
        """
        known = key in self._met or (self._shared_record and _is_on_record(bus, envelope))
        if envelope.attempt > 1 and not known and not may_run_again(bus, envelope):
            found = bus.registry.find(envelope.capability, envelope.version)
            raise absent_capability_error(envelope.capability) if found is None else unknown_call_error()
        self._met.setdefault(key, None)


def _is_on_record(bus: CapabilityBus, envelope: CallEnvelope) -> bool:
    """Whether the record tells if a call was made: it has a run to itself, named after its id. One of a session is in
    a run of many, and only the process that had the session knows which."""
    descriptor = bus.registry.find(envelope.capability, envelope.version)
    return descriptor is not None and descriptor.recorded and not envelope.session_id


def may_run_again(bus: CapabilityBus, envelope: CallEnvelope | None) -> bool:
    descriptor = None if envelope is None else bus.registry.find(envelope.capability, envelope.version)
    return descriptor is not None and descriptor.retriable


def unknown_call_error(outcome: Outcome = "in_doubt") -> BusError:
    why = "this node knows nothing of that call, which was put before; look whether it was done before you repeat it"
    return BusError("partition", why, outcome=outcome)


def absent_capability_error(name: str) -> BusError:
    """The capability is not offered here, or not any more; what another process did with the call is not known."""
    return BusError("not_found", f"nobody here offers {name[:100]!r}, which was called before", outcome="in_doubt")
