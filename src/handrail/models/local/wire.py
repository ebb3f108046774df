"""What crosses between the program and the model's process: what to load, what is asked, what comes back."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from handrail.core.framing import FrameError

T = TypeVar("T")


class EngineStart(Struct, frozen=True, tag="start", kw_only=True):
    """The first frame: what to load, and within which bounds."""

    weights: str
    adapter: str | None
    template: str | None
    folder: str
    """Private and empty. The engine insists on listening somewhere; its socket is here for a moment."""
    threads: int
    slots: int
    context: int
    """Tokens that one conversation may have."""
    queue: int
    memory_bytes: int


class EngineAsk(Struct, frozen=True, tag="ask"):
    number: int
    body: dict[str, Any]


class EngineCancel(Struct, frozen=True, tag="cancel"):
    number: int


class EngineLoading(Struct, frozen=True, tag="loading"):
    """What the process is busy with before it can answer anybody."""

    stage: str


class EngineReady(Struct, frozen=True, tag="ready"):
    pass


class EngineBroken(Struct, frozen=True, tag="broken"):
    """The model could not be loaded, and the process ends."""

    why: str


class EngineChunk(Struct, frozen=True, tag="chunk"):
    number: int
    data: dict[str, Any]


class EngineEnded(Struct, frozen=True, tag="ended"):
    """The reply is over, or was cancelled."""

    number: int


class EngineFailed(Struct, frozen=True, tag="failed"):
    number: int
    kind: Literal["busy", "refused"]
    why: str


ToChild = EngineStart | EngineAsk | EngineCancel
Reply = EngineChunk | EngineEnded | EngineFailed
FromChild = EngineLoading | EngineReady | EngineBroken | Reply

_to_child: msgspec.json.Decoder[ToChild] = msgspec.json.Decoder(ToChild)
_from_child: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)


def read_frame_to_child(body: bytes) -> ToChild:
    return _read(_to_child, body)


def read_frame_from_child(body: bytes) -> FromChild:
    """Parses a message of the child process.

    Raises:
        FrameError: The body is no message.
    """
    return _read(_from_child, body)


def _read(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FrameError(f"a message could not be read: {error}") from error
