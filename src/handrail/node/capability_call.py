"""A call on its way through the bus: what is known of it, and how it is told of when it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from handrail.core.calls import ToolResult
from handrail.core.context import LiveObject
from handrail.core.errors import BusError
from handrail.node.bus.call_trace import CallTraceEvent
from handrail.node.bus.capability_providers import CapabilityProvider
from handrail.node.bus.request import CallTerms
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
        "channel",
        "ended",
        "error",
        "name",
        "provider",
        "terms",
        "token",
        "trace_id",
        "wanted",
        "who",
    )

    def __init__(self, bus: Bus, name: str, body: Any, terms: CallTerms, call_id: str) -> None:
        self.bus = bus
        self.name = name
        self.body: dict[str, Any] = body if type(body) is dict else _object(body)
        self.terms = terms
        """As the call came; its deadline is one for all who are asked."""
        self.caller = terms.caller
        """The caller as it is known, once it is admitted."""
        self.call_id = call_id
        """The caller's, or one that was drawn for it."""
        self.token = terms.token or terms.caller.token
        self.who = None if terms.session_id is None else (terms.caller.id, terms.session_id, name)
        """Whose calls go to the same provider."""
        trace = terms.trace
        self.trace_id = trace.split("-")[1][:32] if trace and trace.count("-") >= 3 else call_id
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


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _object(body: Any) -> dict[str, Any]:
    if isinstance(body, Mapping):
        return dict(body)
    raise BusError("bad_request", 'the body is an object, as {"params": {…}, "input": {…}}')
