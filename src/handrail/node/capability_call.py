"""A call on its way through the bus: what is known of it, and how it is told of when it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from handrail.core.calls import ToolResult
from handrail.core.context import LiveObject
from handrail.core.errors import BusError
from handrail.core.ids import trace_id, traceparent
from handrail.core.redact import Secret
from handrail.node.bus.call_trace import CallTraceEvent
from handrail.node.bus.capability_providers import CapabilityProvider
from handrail.node.bus.request import Caller, CallTerms
from handrail.node.bus.streams import CapabilityResponse, FrameStream
from handrail.node.bus.versions import Version, version_text

if TYPE_CHECKING:
    from handrail.node.bus.interfaces import Bus


@dataclass(slots=True, eq=False, repr=False)
class BusCall(LiveObject):
    """A call on its way: who asks for what, how, and what came of it that a result of the executor cannot hold."""

    bus: Bus
    name: str
    body: dict[str, Any]
    terms: CallTerms
    """The terms of the call as it came; its deadline is the same for all who are asked."""
    call_id: str
    """The caller's, or one that was drawn for it."""
    channel: FrameStream | None
    caller: Caller = field(init=False)
    """The caller as it is known, once it is admitted."""
    token: Secret | None = field(init=False)
    trace_id: str = field(init=False)
    wanted: Version = (0, 0)
    provider: CapabilityProvider | None = None
    """The provider that answered, or was to answer."""
    error: BusError | None = None
    """What the handler raised, with all that it said."""
    ended: ToolResult | None = None
    """What became of it when its caller was gone."""
    bytes_in: int = 0
    bytes_out: int = 0

    def __post_init__(self) -> None:
        terms = self.terms
        if type(self.body) is not dict:
            self.body = _object(self.body)
        self.caller = terms.caller
        self.token = terms.token or terms.caller.token
        self.trace_id = trace_id(traceparent(terms.trace)) or self.call_id

    @property
    def who(self) -> tuple[str, str, str] | None:
        """The identity whose calls go to the same provider; None means that any provider will do."""
        session = self.terms.session_id
        return None if session is None else (self.terms.caller.id, session, self.name)


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
