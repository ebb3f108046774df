"""A call as it comes in: its fields from headers, or all of it as one JSON object. Read once, here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from handrail.core.canonical import canonical_json
from handrail.core.errors import BusError
from handrail.core.ids import traceparent
from handrail.core.jsontext import JSONTextError, kind_of, parse
from handrail.core.redact import Secret
from handrail.node.bus.request import Caller, CallTerms

if TYPE_CHECKING:
    from starlette.datastructures import Headers

NAME = "X-HearthNet-Capability"
PREFIX = "X-HearthNet-"
LOOK = "node.look"
"""What a node that signs calls when it only wants to look at something."""

# `$` alone would let a last newline through, and an id goes into a header of the answer.
Id = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]*$(?!\n)", max_length=128)]
Text = Annotated[str, Meta(max_length=256)]
Version = Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})$(?!\n)")]
Milliseconds = Annotated[int, Meta(ge=0, le=86_400_000)]
Depth = Annotated[int, Meta(ge=0, le=1_000)]
Scopes = Annotated[tuple[tuple[Text, ...], ...], Meta(max_length=64)]


class CallEnvelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is called, with what, and on whose behalf, as the caller says it."""

    capability: Annotated[str, Meta(min_length=1, max_length=100)]
    version: Version = "1.0"
    request_id: Id = ""
    """The same for every attempt at one call."""
    attempt: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    """The number of this attempt: a client sends it if it does not know what became of the others."""
    sender: Text = msgspec.field(name="from", default="")
    community: Text = ""
    timestamp: Text = ""
    to: Text = ""
    """The id of the node that the signature is for."""
    signature: Text = ""
    token: Annotated[str, Meta(max_length=8_192)] = ""
    timeout_ms: Milliseconds | None = None
    depth: Depth = 0
    within: Scopes = ()
    session_id: Id | None = None
    schema_hash: Text | None = None
    traceparent: Text | None = None
    interactive: bool = False
    body: dict[str, Any] = {}

    def fields(self) -> dict[str, str]:
        """What a signature is of, and the signature."""
        return {
            "capability": self.capability,
            "version": self.version,
            "request_id": self.request_id,
            "from": self.sender,
            "community": self.community,
            "timestamp": self.timestamp,
            **({"to": self.to} if self.to else {}),
            "signature": self.signature,
        }

    def terms(self, caller: Caller, token: Secret | None, call_id: str, most: float) -> CallTerms:
        """The terms of the call. Nobody is waited for longer than `most` seconds."""
        return CallTerms(
            caller=caller,
            token=token,
            call_id=call_id,
            timeout_seconds=None if self.timeout_ms is None else min(self.timeout_ms / 1000, most),
            depth=self.depth,
            within=self.within,
            session_id=self.session_id,
            schema_hash=self.schema_hash,
            trace=traceparent(self.traceparent),
        )


def read_call(raw: bytes, *, max_size: int) -> tuple[CallEnvelope, bytes]:
    """A call all of whose fields stand in one JSON object, and the bytes of its body as they are signed.

    Raises:
        BusError: It cannot be read (`bad_request`).
    """
    envelope = envelope_from_object(_object(raw, max_size))
    return envelope, canonical_json(envelope.body)


def with_parsed_body(envelope: CallEnvelope, raw: bytes, *, max_size: int) -> CallEnvelope:
    """A call whose fields stand in headers, with its body.

    Raises:
        BusError: It cannot be read (`bad_request`).
    """
    return replace(envelope, body=_object(raw, max_size))


def _object(raw: bytes, max_size: int) -> dict[str, Any]:
    try:
        said = parse(raw, max_size=max_size)
    except JSONTextError as error:
        raise BusError("bad_request", f"the request is not JSON: {error}") from error
    if not isinstance(said, dict):
        raise BusError("bad_request", f"the request is a JSON object, not {kind_of(said)}")
    return said


def envelope_from_object(said: Any) -> CallEnvelope:
    """The envelope that a JSON object is. A `BusError` (`bad_request`) refuses anything else."""
    try:
        return msgspec.convert(said, CallEnvelope)
    except msgspec.ValidationError as error:
        raise BusError("bad_request", f"the call cannot be read: {error}") from error


def envelope_from_headers(headers: Headers) -> CallEnvelope | None:
    """The envelope of a request, without its body; None if its headers say nothing of a call.

    Raises:
        BusError: It cannot be read (`bad_request`).
    """
    if NAME not in headers:
        return None
    found = {field: single_header(headers, name) for field, name in HEADERS.items()}
    read = {field: _READ.get(field, str)(value) for field, value in found.items() if value is not None}
    return envelope_from_object(read)


def single_header(headers: Headers, name: str) -> str | None:
    """The value of a header.

    Raises:
        BusError: There are several, and nobody knows which one is meant (`bad_request`).
    """
    values = headers.getlist(name)
    if len(values) > 1:
        raise BusError("bad_request", f"the header {name} is there {len(values)} times; send it once")
    return values[0] if values else None


_NAMED_ALIKE = (
    *("request_id", "from", "community", "timestamp", "to", "signature", "attempt", "timeout_ms", "depth"),
    *("within", "session_id", "schema_hash"),
)
HEADERS = {
    "capability": NAME,
    "version": f"{PREFIX}Capability-Version",
    "traceparent": "traceparent",
    **{field: PREFIX + field.replace("_", "-").title() for field in _NAMED_ALIKE},
}
"""The header of each field of an envelope."""


def _number(text: str) -> Any:
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 12 else text


def _scopes(text: str) -> Any:
    try:
        return parse(text)
    except JSONTextError as error:
        raise BusError("bad_request", f"{PREFIX}Within is not JSON: {error}") from error


_READ: dict[str, Callable[[str], Any]] = {
    "timeout_ms": _number,
    "attempt": _number,
    "depth": _number,
    "within": _scopes,
}
