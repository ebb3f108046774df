"""A call on its way through the bus: what is known of it, and how it is told of when it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from handrail.core.calls import ToolResult
from handrail.core.context import LiveObject
from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.node.bus.call_trace import CallTraceEvent
from handrail.node.bus.capability_providers import CapabilityProvider
from handrail.node.bus.request import Caller
from handrail.node.bus.streams import CapabilityResponse, FrameStream
from handrail.node.bus.versions import Version, version_text

if TYPE_CHECKING:
    from handrail.node.bus.interfaces import Bus


class BusCall(LiveObject):
    """A call on its way: who asks for what, how, and what came of it that a result of the executor cannot hold."""

    __slots__ = (
        "body",
        "bus",
        "bytes_in",
        "bytes_out",
        "call_id",
        "caller",
        "came",
        "channel",
        "deadline",
        "ended",
        "error",
        "how",
        "name",
        "provider",
        "session_id",
        "token",
        "trace_id",
        "wanted",
        "who",
    )

    def __init__(self, bus: Bus, name: str, body: Any, how: Mapping[str, Any], caller: Caller, call_id: str) -> None:
        self.bus = bus
        self.name = name
        self.body: dict[str, Any] = body if type(body) is dict else _object(body)
        self.how = how
        self.came = caller
        """As whom they came."""
        self.caller = caller
        """As whom they are known."""
        self.call_id = call_id
        self.token: Secret | None = None
        self.session_id: str | None = how.get("session_id")
        self.who = None if self.session_id is None else (caller.id, self.session_id, name)
        """Whose calls go to the same provider."""
        self.deadline = _deadline(how)
        """Of the caller, on the clock of the loop: one for all who are asked."""
        self.trace_id = ""
        self.wanted: Version = (0, 0)
        self.channel: FrameStream | None = None
        self.provider: CapabilityProvider | None = None
        """Who answered, or was to."""
        self.error: BusError | None = None
        """What the handler raised, with all that it said."""
        self.ended: ToolResult | None = None
        """What became of it when its caller was gone."""
        self.bytes_in = 0
        self.bytes_out = 0


def ended_call_trace(
    asked: BusCall, result: str, ms: float, response: CapabilityResponse | None, now: int
) -> CallTraceEvent:
    """A call that has ended, for whoever looks after the node."""
    provider, meta = asked.provider, {} if response is None else response.meta
    return CallTraceEvent(
        ts=now,
        trace_id=asked.trace_id,
        capability=asked.name[:100],
        version=version_text(asked.wanted if provider is None else provider.descriptor.version),
        from_node=asked.caller.id,
        to_node="" if provider is None else provider.node_id,
        is_local=provider is not None and provider.bus is None,
        result=result,
        ms=ms,
        tokens_in=_count(meta.get("tokens_in")),
        tokens_out=_count(meta.get("tokens_out")),
        bytes_in=asked.bytes_in,
        bytes_out=asked.bytes_out,
    )


def _deadline(how: Mapping[str, Any]) -> float | None:
    seconds, deadline = how.get("timeout_seconds"), how.get("deadline")
    if seconds is None:
        return None if deadline is None else float(deadline)
    until: float = asyncio.get_running_loop().time() + seconds
    return until if deadline is None else min(until, float(deadline))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _object(body: Any) -> dict[str, Any]:
    if isinstance(body, Mapping):
        return dict(body)
    raise BusError("bad_request", 'the body is an object, as {"params": {…}, "input": {…}}')
