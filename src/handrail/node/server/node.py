"""What a node over HTTP is made of: the bus that it opens to others, what it says of itself, and how much it bears.

Values only. `app.py` makes an ASGI application of them, `serving.py` puts that on a socket.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from handrail.core.redact import Secret
from handrail.node.bus.request import Caller
from handrail.node.server.lifecycle import NodeLifecycle
from handrail.node.server.retry_checks import RecentCallIds
from handrail.node.server.stream_replay import ReplayStore
from handrail.node.server.unary_calls import UnaryCalls

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from handrail.node.capability_bus import CapabilityBus
    from handrail.node.server.metrics import CallMetrics


class SignatureCheck(Protocol):
    """Says who signed. `handrail.node.tokens.signatures.Authenticator` is one."""

    def authenticate(self, fields: Mapping[str, str], body: bytes) -> Caller:
        """Returns the signer of a call with these fields and this body.

        Raises:
            BusError: It is signed wrongly, too old, or was seen before (`invalid_signature`).
        """
        ...


Identify = Callable[[Caller, Secret | None], Awaitable[Caller]]
"""Who holds a token, and what it may, without taking that for a call.

Raises:
    BusError: The token is not good (`token_…`).
"""
Sign = Callable[[bytes], str]
"""A signature, as `ed25519:…`."""


class NodeFacts(Struct, frozen=True, kw_only=True):
    """What a node says of itself."""

    name: str = "handrail"
    node_id: str = "self"
    community: str = ""
    version: str = ""


class SocketLimits(Struct, frozen=True, kw_only=True):
    """What a WebSocket is held to."""

    first_seconds: float = 10.0
    """The time for a socket to say what it calls."""
    window: int = 16
    """Frames that may be sent before one is acknowledged."""
    ack_seconds: float = 5.0
    """The time for a client to acknowledge when the window is full."""
    idle_seconds: float = 120.0
    """After which a socket on which nothing happens is closed."""
    ping_seconds: float = 30.0


class ServerLimits(Struct, frozen=True, kw_only=True):
    """How much of the node one client may take up."""

    body: int = 16 * 1024 * 1024
    """Bytes of a request, and of a message on a socket."""
    reading: int = 128 * 1024 * 1024
    """Bytes of all large requests and messages that are being read, whoever sends them."""
    head_seconds: float = 10.0
    """The time for a connection to send the head of a request."""
    body_seconds: float = 30.0
    """The time for the rest of a request to arrive."""
    write_seconds: float = 30.0
    """The time for a client to take what it is sent; one that reads nothing for longer is gone."""
    connections: int = 1_024
    keep_alive: float = 15.0
    """Seconds of silence after which a stream says that it is still there."""
    linger: float = 0.75
    """Seconds for which a call goes on when nobody listens any more; in them a client may come back. 0 is none."""
    kept_seconds: float = 10.0
    """The time for which a stream that has ended can be read again."""
    frames: int = 1_024
    """The number of last frames of a stream that can be read again."""
    grace: float = 5.0
    """Seconds for calls to end by themselves when the node does."""
    timeout: float = 3_600.0
    """Seconds that a caller may ask for at most."""
    sockets: SocketLimits = SocketLimits()


@dataclass(frozen=True, kw_only=True)
class NodeServer:
    """Everything that the node serves over HTTP."""

    bus: CapabilityBus
    node: NodeFacts = field(default_factory=NodeFacts)
    check: SignatureCheck | None = None
    """Checks signatures; None accepts none: a signed call is refused."""
    identify: Identify | None = None
    """None knows no tokens beside what the bus admits, so that nobody but `trusted` callers may look, and large bodies
    are read only where no token is required."""
    token_required: bool = True
    """False trusts everybody who can reach the socket; only for loopback."""
    hosts: tuple[str, ...] = ()
    """Names that the node goes by, beside loopback and the address it is bound to."""
    origins: tuple[str, ...] = ()
    """Web pages of others that may use it."""
    page: bool = False
    """Whether it has a page of its own, at `/`."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    pages: Sequence[BaseRoute] = ()
    """Pages that need no token, since their address is the right to see them."""
    gateways: Sequence[BaseRoute] = ()
    described: Mapping[str, Any] = field(default_factory=dict)
    """The OpenAPI paths of the gateways."""
    metrics: Callable[[], bytes] | None = None
    """The text for Prometheus; None keeps its own."""
    recording: Callable[[], Awaitable[None]] | None = None
    """Raises a `JournalError` while the record cannot be written: then every call would be refused."""
    shared_record: bool = False
    """Whether the replicas of the node have one record: then it tells of calls that another one was asked for."""
    telemetry: Callable[[], Any] | None = None
    """Which tools were offered, picked and failed, as JSON."""
    sign: Sign | None = None
    """Signs the manifest."""
    life: NodeLifecycle = field(default_factory=NodeLifecycle)

    @cached_property
    def replay(self) -> ReplayStore:
        """The streams that are under way, and those that just were."""
        limits = self.limits
        return ReplayStore(self.life, frames=limits.frames, linger=limits.linger, kept_seconds=limits.kept_seconds)

    @cached_property
    def calls(self) -> UnaryCalls:
        """The calls under way that are answered in one piece."""
        return UnaryCalls(self.life, linger=self.limits.linger)

    @cached_property
    def counted(self) -> CallMetrics:
        """Its own numbers, for when none are given."""
        from handrail.node.server.metrics import CallMetrics

        return CallMetrics(self.bus)

    @cached_property
    def met(self) -> RecentCallIds:
        """The calls that this process was asked for."""
        return RecentCallIds(shared_record=self.shared_record)
