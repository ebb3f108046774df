"""What an API is, from the side of the server: how its requests are read and its answers written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from handrail.server.gateways.asked import Asked, Ended
from handrail.server.gateways.failures import Failure

encode = msgspec.json.Encoder().encode


class Writer(Protocol):
    """Writes one answer: as frames of a stream while it comes, or whole when it is there."""

    def begin(self) -> bytes:
        """What comes before anything is said."""
        ...

    def text(self, piece: str) -> bytes: ...

    def finish(self, ended: Ended) -> bytes:
        """The calls for the client, why it ended, and the end."""
        ...

    def whole(self, ended: Ended) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Wire:
    """One API."""

    name: str
    path: str
    read: Callable[[bytes, Mapping[str, str], int], Asked]
    """From the body and the headers of a request, of so many bytes at most."""
    writer: Callable[[str, int, str, Asked], Writer]
    """For an answer with this id, made at this time (seconds since 1970), under the name of this model."""
    failed: Callable[[Failure, str], dict[str, Any]]
    """The body of an error, with the id of the request."""
    broken: Callable[[Failure, str], bytes]
    """The frame of an error that ends a stream."""
    alive: bytes
    """A frame that says nothing but that somebody is there."""
    id: str
    """What the ids of answers begin with."""
    overloaded: int = 503
    """The status for: too much at once, come back later."""


def comment(said: Mapping[str, Any]) -> bytes:
    """A line of a stream that no client of the API reads, unless it looks for it."""
    return b": handrail " + encode(said) + b"\n\n"
