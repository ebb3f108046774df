"""What a provider is: a pure translation of requests into its wire, and of its wire into events.

No sockets, keys, clocks or randomness inside. Prompted and grammar-constrained
calling are codecs around codecs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import Struct, field

from handrail.core.events import ModelEvent
from handrail.core.model_request import ModelRequest
from handrail.models.repeated_events import PieceOf

_encode = msgspec.json.Encoder().encode

Framing = Literal["sse", "ndjson", "json", "aws"]


class EncodedList(Struct, frozen=True):
    """A list of the body that is written already."""

    items: list[Any]
    text: Sequence[bytes]
    """The JSON of the items in pieces, with a comma between two items; none if it must be written after all."""


class WireRequest(Struct, frozen=True, kw_only=True):
    """A request in the form of the service. The transport adds the address of the service and the key."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)
    method: Literal["POST", "GET"] = "POST"
    framing: Framing = "sse"
    """How the reply comes: events of a stream, or one JSON document."""
    exact: bool = True
    """Whether calls come with their arguments as objects, which are then read as strictly as text is later."""
    notices: tuple[str, ...] = ()
    """What the request could not say in this wire: keywords lost, choices not enforced."""
    piece_of: PieceOf | None = None
    """How whoever decodes the reply knows events that only go on with a text; those that follow one alike may then come
    as their texts alone."""
    known: tuple[EncodedList, ...] = ()
    """Parts of the body that need not be written again."""
    begun: tuple[dict[str, Any], bytes] | None = None
    """A body, and its JSON up to its last field. It counts while that body is this one."""

    def text(self) -> bytes:
        """The body as JSON.

        Raises:
            TypeError, ValueError, RecursionError: It has no such form.
        """
        known = {id(part.items): part.text for part in self.known if part.text}
        fields, begun = list(self.body.items()), b""
        if self.begun is not None and self.begun[0] is self.body:
            fields, begun = fields[-1:], self.begun[1]
        pieces: list[bytes] = []
        for key, value in fields:
            pieces += b",", _encode(key), b":"
            pieces += (b"[", *known[id(value)], b"]") if id(value) in known else (_encode(value),)
        if not begun:
            begun, pieces = b"{", pieces[1:]
        return b"".join((begun, *pieces, b"}"))  # a long conversation is copied only here


class Decoder(Protocol):
    """Fed one wire event at a time, in order."""

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterable[ModelEvent]:
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


@runtime_checkable
class EndAwareDecoder(Protocol):
    """What a decoder may be beside a `Decoder`: one that is told when the service says that its stream is complete.

    That is `[DONE]`; a stream whose last event has no reason to end is then complete and not cut off.
    """

    def done(self) -> None: ...


@runtime_checkable
class PieceDecoder(Decoder, Protocol):
    """What a decoder may be beside a `Decoder`: one that takes the texts of events that are alike but for them."""

    def piece_of(self, data: Mapping[str, Any]) -> str | None:
        """The text of an event that only goes on with what was begun; None of any other. It changes nothing."""
        ...

    def more(self, texts: Sequence[str]) -> Iterable[ModelEvent]:
        """What events mean that differ from the last one only in their text, which are these."""
        ...


class Codec(Protocol):
    """`encode` and `decoder` share nothing but the request."""

    @property
    def provider(self) -> str:
        """The name under which its artefacts go."""
        ...

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest: ...

    def decoder(self, request: ModelRequest) -> Decoder:
        """A decoder for one reply. A reply that is not streamed is fed as one event."""
        ...


@runtime_checkable
class CompletingCodec(Protocol):
    """What a codec may be beside a `Codec`: one whose service also continues a text that is no conversation."""

    def text_codec(self, model: str) -> Codec | None:
        """The wire for that; None where the service cannot do it with this model."""
        ...


@runtime_checkable
class CountingCodec(Protocol):
    """What a codec may be beside a `Codec`: one whose service counts the tokens of a request."""

    def encode_count(self, request: ModelRequest, model: str) -> WireRequest:
        """The question; its answer is one JSON document."""
        ...

    def read_count(self, data: Mapping[str, Any]) -> int:
        """The token count in the service's answer.

        Raises:
            ProtocolError: It is no count.
        """
        ...


@runtime_checkable
class TextCallCodec(Protocol):
    """What a codec may be beside a `Codec`: one in whose wire calls are written as text."""

    @property
    def calls_are_text(self) -> bool: ...


@runtime_checkable
class SearchingCodec(Protocol):
    """What a codec may be beside a `Codec`: one whose wire has deferred tools."""

    def searches_tools(self, model: str) -> bool:
        """Whether the service finds deferred tools for this model."""
        ...
