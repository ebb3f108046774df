"""What every bus can do, and what is plugged into one."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, Self, TypedDict, Unpack

from msgspec import MsgspecError, Struct, convert

from handrail.core.errors import HandrailError
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import Caller, CallTerms, RouteRequest
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.bus.versions import VersionReq, version_of

logger = logging.getLogger(__name__)

Handler = Callable[[RouteRequest], Awaitable[dict[str, Any]]]
"""Does the work: returns `{"output": {…}, "meta": {…}}`, where `meta` may be missing. Raises `BusError` on failure.

One that streams sends its frames on the way (`await request.send(…)`); `done` is sent for it, with its `meta`.
"""
Predicate = Callable[[Mapping[str, Any]], bool]
"""Whether it can serve a call with these `params`."""


class CallOptions(TypedDict, total=False):
    """The fields of `CallTerms` as a program writes them, or whole `terms`, or terms and what is different."""

    terms: CallTerms
    session_id: str | None
    timeout_seconds: float | None
    caller: Caller | None
    """The caller; None is the program itself."""
    token: str | None
    deadline: float | None
    depth: int
    within: tuple[tuple[str, ...], ...]
    call_id: str | None
    trace: str | None
    schema_hash: str | None


class StreamOptions(CallOptions, total=False):
    interactive: bool
    """This caller answers `tool_call` frames."""


class CapabilityOffer(Struct, frozen=True, kw_only=True):
    """A capability of a node."""

    node_id: str
    descriptor: CapabilityDescriptor
    schema_hash: str
    local: bool = False
    in_flight: int = 0

    @classmethod
    def from_dict(cls, node_id: str, said: Any) -> CapabilityOffer | None:
        """An offer as another node tells it; None if it cannot be read, so that it is not there for us."""
        try:
            descriptor = convert({**said, "version": version_of(said["version"])}, CapabilityDescriptor)
            of = said["node_id"] if isinstance(said.get("node_id"), str) else node_id
            hashed, in_flight = str(said["schema_hash"]), int(said.get("in_flight", 0))
            return cls(node_id=of, descriptor=descriptor, schema_hash=hashed, in_flight=in_flight)
        except (MsgspecError, HandrailError, LookupError, TypeError, ValueError, AttributeError):
            logger.warning("an offer of node %s cannot be read; it is passed over", node_id)
            return None


class CallStream(Protocol):
    """The frames of one call. Use it with `async with`: leaving early cancels the call."""

    def __aiter__(self) -> AsyncIterator[StreamFrame]: ...

    async def __anext__(self) -> StreamFrame:
        """The next frame. The last is `done` or `error`; errors are frames here, not raised."""
        ...

    async def tool_result(self, tool_call_id: str, body: Any, *, is_error: bool = False) -> None:
        """Answer a `tool_call` frame, in an interactive stream.

        Raises:
            BusError: No such call waits for an answer (`bad_request`).
        """
        ...

    async def cancel(self) -> None:
        """End the call. One `error` frame with the code `cancelled` follows, unless it had ended."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...


class Bus(Protocol):
    """A place where capabilities are called. In process, over HTTP and over NATS it is the same."""

    @property
    def node_id(self) -> str: ...

    async def call(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> dict[str, Any]:
        """The response, `{"output": …, "meta": {…, "ms": n}}`. A streaming capability is drained to its response.

        Raises:
            BusError: Whatever went wrong, with a code of the closed set.
        """
        ...

    def stream(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Unpack[StreamOptions]
    ) -> CallStream:
        """The frames of a call, as they come."""
        ...

    async def discover(self, name: str | None = None) -> Sequence[CapabilityOffer]:
        """What there is, of one name or at all."""
        ...


class Admission(Protocol):
    """Decides who may call what. Signatures are checked at the door; tokens, trust and limits here."""

    async def admit(
        self, caller: Caller, token: Secret | None, descriptor: CapabilityDescriptor, body: Mapping[str, Any]
    ) -> Caller:
        """The caller as it is known, with its trust and with the token's scopes.

        Raises:
            BusError: It may not: `token_…`, `unauthorized`, `rate_limited`, …
        """
        ...
