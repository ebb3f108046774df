"""What an API is, from the side of the server: how its requests are read and its answers written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.ids import NewId
from handrail.core.messages import Citation, Media, Message, StopReason
from handrail.node.gateways.failures import GatewayFailure
from handrail.node.gateways.request import GatewayOutcome, GatewayRequest

encode = msgspec.json.Encoder().encode


class AnswerWriter(ABC):
    """Writes one answer: as frames of a stream while it comes, or whole when it is there.

    An API that shows only the text of an answer and its calls for the client has nothing to write in between.
    """

    collects: ClassVar[bool] = False
    """Whether it is told of everything also when nothing is streamed."""
    between: ClassVar[str] = "\n\n"
    """What stands between the texts of two replies."""

    def resume(self, messages: Sequence[Message]) -> None:
        """Takes in what the answer of a run that is resumed consists of already."""
        return

    @abstractmethod
    def begin(self) -> bytes:
        """What comes before anything is said."""

    @abstractmethod
    def text(self, piece: str) -> bytes: ...

    def reasoning(self, piece: str) -> bytes:
        return b""

    def citation(self, citation: Citation) -> bytes:
        return b""

    def media(self, media: Media) -> bytes:
        """A picture or a file that the model made."""
        return b""

    def end_reply(self, calls: Sequence[ToolCall], stop: StopReason) -> bytes:
        """A reply of the model is complete and on record, with these calls, of the node or of the client."""
        return b""

    def end_call(self, result: ToolResult) -> bytes:
        """A call has its result; also one that another tool made, which no reply has."""
        return b""

    @abstractmethod
    def finish(self, ended: GatewayOutcome) -> bytes:
        """The calls for the client, why it ended, and the end."""

    @abstractmethod
    def whole(self, ended: GatewayOutcome) -> dict[str, Any]: ...

    @abstractmethod
    def broken(self, failure: GatewayFailure, run: str) -> bytes:
        """The frames of an error that ends a stream."""


@dataclass(frozen=True, slots=True)
class GatewayWire:
    """One API."""

    name: str
    path: str
    read: Callable[[bytes, Mapping[str, str], int], GatewayRequest]
    """Reads a request from its body and headers, of so many bytes at most."""
    writer: Callable[[str, int, str, GatewayRequest], AnswerWriter]
    """Makes a writer for an answer with this id, made at this time (seconds since 1970), under the name of this
    model."""
    failed: Callable[[GatewayFailure, str], dict[str, Any]]
    """The body of an error, with the id of the request."""
    alive: bytes
    """A frame that says nothing but that somebody is there."""
    id: Callable[[NewId, str, GatewayRequest], str]
    """The id of an answer to this request, made in this run."""
    overloaded: int = 503
    """The status for: too much at once, come back later."""


def random_id_maker(kind: str) -> Callable[[NewId, str, GatewayRequest], str]:
    """Ids that begin so and tell nothing else."""
    return lambda new_id, run, asked: new_id(kind)


def text_frame(frame: bytes, field: bytes) -> Callable[[str], bytes]:
    """Writes frames that differ in one text only, as almost all of a stream do: from one that has 0 in its place."""
    before, after = frame.split(b'"%b":0' % field)
    before += b'"%b":' % field
    return lambda piece: before + encode(piece) + after


def stream_comment(said: Mapping[str, Any]) -> bytes:
    """A line of a stream that no client of the API reads, unless it looks for it."""
    return b": handrail " + encode(said) + b"\n\n"
