"""What a provider is: a pure translation of requests into its wire, and of its wire into events.

No sockets, keys, clocks or randomness inside. Prompted and grammar-constrained
calling are codecs around codecs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from handrail.core.events import ModelEvent
from handrail.core.model import ModelRequest

Framing = Literal["sse", "ndjson", "json", "aws"]


class WireRequest(Struct, frozen=True, kw_only=True):
    """A request as a service takes it. The transport adds the address of the service and the key."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)
    framing: Framing = "sse"
    """How the reply comes: events of a stream, or one JSON document."""
    notices: tuple[str, ...] = ()
    """What the request could not say in this wire: keywords lost, choices not enforced."""


class Decoder(Protocol):
    """Fed one wire event at a time, in order."""

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        """What one wire event means. `event` is the name that SSE gave it, if any.

        Raises:
            ProtocolError: It cannot be read, or reports an error of the service.
        """
        ...

    def finish(self) -> Iterator[ModelEvent]:
        """The stream has ended: whatever is left, `ReplyFinished` last.

        Raises:
            ProtocolError: It was cut off; half a call is never given out.
        """
        ...


class Codec(Protocol):
    """`encode` and `decoder` share nothing but the request."""

    @property
    def provider(self) -> str:
        """The name under which its artefacts go."""
        ...

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest: ...

    def decoder(self, request: ModelRequest) -> Decoder:
        """For the reply to this request, streamed or not: one JSON document is fed as one event."""
        ...
