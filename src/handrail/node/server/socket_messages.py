"""What a client says on a socket, read once, here: five kinds of messages, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from handrail.core.errors import BusError
from handrail.core.jsontext import JSONTextError, parse
from handrail.node.server.envelope import Id, Text

Count = Annotated[int, Meta(ge=0, le=2**53)]
PROTOCOL, TOO_LARGE = 1002, 1009
"""Codes with which a socket is closed on somebody who breaks the rules."""


class BadSocketMessage(Exception):
    """A message that no client of ours sends."""

    def __init__(self, why: str, code: int = PROTOCOL) -> None:
        super().__init__(why)
        self.code = code

    @property
    def error(self) -> BusError:
        return BusError("bad_request", str(self), local="bad_frame")


class _SocketMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    pass


class SocketCallMessage(_SocketMessage, frozen=True, kw_only=True, tag="call"):
    """The first message."""

    envelope: dict[str, Any]
    signature: Text = ""


class SocketResumeMessage(_SocketMessage, frozen=True, kw_only=True, tag="resume"):
    """The first message of who was cut off: the call as it was, and the last frame that got there."""

    request_id: Id
    after: Count = 0
    envelope: dict[str, Any] | None = None
    signature: Text = ""


class SocketAckMessage(_SocketMessage, frozen=True, kw_only=True, tag="ack"):
    upto: Count


class SocketToolAnswer(_SocketMessage, frozen=True, kw_only=True, tag="tool_result"):
    tool_call_id: Annotated[str, Meta(max_length=512)]
    body: Any
    is_error: bool | None = None
    """Whether the result is an error. If it is not said, a body with an `error` is one."""

    @property
    def failed(self) -> bool:
        if self.is_error is not None:
            return self.is_error
        return isinstance(self.body, dict) and bool(self.body.get("error"))


class SocketCancelMessage(_SocketMessage, frozen=True, kw_only=True, tag="cancel"):
    pass


First = SocketCallMessage | SocketResumeMessage
Later = SocketAckMessage | SocketToolAnswer | SocketCancelMessage


def read_first_message(message: Mapping[str, Any], max_size: int) -> First:
    """A `call` or a `resume`; a `BadSocketMessage` says what else it is."""
    found: First = _read(message, max_size, First)
    return found


def read_later_message(message: Mapping[str, Any], max_size: int) -> Later:
    """An `ack`, a `tool_result` or a `cancel`; a `BadSocketMessage` says what else it is."""
    found: Later = _read(message, max_size, Later)
    return found


def _read(message: Mapping[str, Any], max_size: int, kinds: Any) -> Any:
    text = message.get("text")
    if text is None:
        raise BadSocketMessage("messages are JSON in text frames, not binary ones")
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) > max_size:
        raise BadSocketMessage(f"a message may have {max_size:,} bytes", TOO_LARGE)
    try:
        return msgspec.convert(parse(raw, max_size=max_size), kinds)
    except JSONTextError as error:
        raise BadSocketMessage(f"the message is not JSON: {error}") from error
    except msgspec.ValidationError as error:
        raise BadSocketMessage(f"the message cannot be read: {error}") from error
