"""What a model says as the frames of `llm.chat`, both ways.

What a service adds to a reply (citations, media, calls that the service ran) goes from the node of the model to whoever
asks. It is not sent back with a conversation: what a service wants back is in the artefacts, and the pictures of a long
conversation would not fit in one request.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from handrail.core.calls import ToolCall
from handrail.core.errors import (
    BrokenChoice,
    BusError,
    ModelError,
    ModelUnavailable,
    ProtocolError,
    RateLimited,
    RequestRefused,
)
from handrail.core.events import (
    CallDelta,
    CallReady,
    CallRequested,
    CitationAdded,
    Event,
    MediaAdded,
    ModelEvent,
    Notice,
    ReplyFinished,
    ServiceCallMade,
    TextDelta,
)
from handrail.core.ids import NewId
from handrail.core.messages import Citation, Media, ServiceCall, StopReason, Usage
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.bus.wire_codes import WIRE
from handrail.node.chat.messages import read_artefacts, write_artefacts, write_call

CITATION, MEDIA, SERVICE_CALL = "citation", "media", "service_call"
FIELDS = {CITATION: "citations", MEDIA: "media", SERVICE_CALL: "service_calls"}
"""The place of the data of each event's frames in the message of a whole response."""
LARGEST_MEDIA = 8 * 1024 * 1024
"""Bytes of a picture or a file. A frame of every transport has room for that in base64."""
LARGEST_JSON = 1024 * 1024
"""Bytes of what a service was asked, and of what it answered."""
LONGEST = 20_000
"""Characters of each text of a citation."""
BROKEN_CHOICE = "broken_choice"
"""The `reason` of an error: the model called tools, or called none, against what it was told."""
_STOPS: frozenset[str] = frozenset(get_args(StopReason))

Said = tuple[str, dict[str, Any]]
"""An event and its data."""


class CallIdNaming:
    """Gives each call of one reply an id that no call before it had: some models use one again, or give none."""

    def __init__(self, taken: set[str], new_id: NewId) -> None:
        self._taken = taken
        self._new_id = new_id
        self._ids: dict[str, str] = {}
        """Of the calls that are being written, by what the model calls them."""

    def named(self, event: ModelEvent) -> ModelEvent:
        match event:
            case CallDelta(call_id=given):
                return event if (id := self._id(given)) == given else replace(event, call_id=id)
            case CallReady(call=call):
                return replace(event, call=replace(call, id=self._id(call.id)))
            case CallRequested(call=call):
                named = replace(event, call=replace(call, id=self._id(call.id)))
                del self._ids[call.id]
                return named
        return event

    def _id(self, given: str) -> str:
        if given not in self._ids:
            self._ids[given] = given if given and given not in self._taken else self._new_id("call")
            self._taken.add(self._ids[given])
        return self._ids[given]


class ChatFrameWriter:
    """Events of a model to frames. A call that came without pieces is given one."""

    def __init__(self) -> None:
        self._begun: set[str] = set()
        """The calls of which a piece was sent."""

    def frames(self, event: Event) -> Iterator[Said]:
        match event:
            case TextDelta(text=text):
                yield "token", {"text": text}
            case Notice(text=text):
                yield "notice", {"text": text}
            case CallDelta(call_id=id, name=name, arguments=piece):
                yield self._delta(id, name, piece)
            case CallRequested(call=call, artefacts=artefacts):
                if call.id not in self._begun:
                    given = call.arguments
                    text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
                    yield self._delta(call.id, call.name, text)
                yield "tool_call", write_call(call, artefacts)
            case CitationAdded() | MediaAdded() | ServiceCallMade():
                yield from extra_frames(event)

    def _delta(self, id: str, name: str, piece: str) -> Said:
        first = {} if id in self._begun else {"name": name}
        self._begun.add(id)
        return "tool_call_delta", {"id": id, **first, "arguments_delta": piece}


def done_data(end: ReplyFinished) -> dict[str, Any]:
    """The end of a reply, as the data of `done`; the bus adds how long it took."""
    return {
        "model": end.model,
        "tokens_in": end.usage.input_tokens,
        "tokens_out": end.usage.output_tokens,
        "stop_reason": end.stop,
        **write_artefacts(end.artefacts),
    }


class ChatFrameReader:
    """Frames of one reply to events."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """Of calls, by id: it is on the first delta, and some nodes leave it off the call itself."""

    def events(self, frame: StreamFrame) -> Iterator[ModelEvent]:
        """The events that a frame tells of.

        Raises:
            ModelError: The frame says that the reply failed, or cannot be read.
        """
        data = frame.data
        try:
            match frame.event:
                case "token":
                    yield TextDelta(text=_words(data["text"]))
                case "notice":
                    yield Notice(text=_words(data["text"]))
                case "tool_call_delta":
                    id = _words(data["id"])
                    name = self._names.setdefault(id, _words(data.get("name", "")))
                    yield CallDelta(call_id=id, name=name, arguments=_words(data["arguments_delta"]))
                case "tool_call":
                    yield self._call(data)
                case "done":
                    yield _finished(data)
                case "error":
                    raise model_error(BusError.from_dict(data))
                case event:
                    if (extra := extra_event(event, data)) is not None:
                        yield extra
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise ProtocolError(f"the node sent a {frame.event!r} frame that cannot be read") from error

    def _call(self, data: dict[str, Any]) -> CallRequested:
        id = data["id"]
        name = data.get("name") or self._names.get(id, "")
        if not name:
            raise ProtocolError(f"the node sent the call {str(id)[:80]!r} without a name")
        call = msgspec.convert({"id": id, "name": name, "arguments": data["arguments"]}, ToolCall)
        return CallRequested(call=call, artefacts=read_artefacts(data))


def _finished(data: dict[str, Any]) -> ReplyFinished:
    stop: Any = data.get("stop_reason", "end")
    if stop == "cancelled":
        raise ProtocolError("the reply was cancelled on its node")
    usage = {"input_tokens": data.get("tokens_in", 0), "output_tokens": data.get("tokens_out", 0)}
    return ReplyFinished(
        stop=stop if stop in _STOPS else "end",
        model=_words(data.get("model", "")),
        usage=msgspec.convert(usage, Usage),
        artefacts=read_artefacts(data),
    )


def _words(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def extra_frames(event: Event) -> Iterator[Said]:
    """The frame of an event, if it has one. What is too large is left out, and a notice says so."""
    match event:
        case CitationAdded(citation=citation):
            fields: dict[str, Any] = msgspec.to_builtins(citation)
            yield CITATION, {key: each[:LONGEST] if isinstance(each, str) else each for key, each in fields.items()}
        case MediaAdded(media=media):
            yield from _media_frames(media)
        case ServiceCallMade(call=call):
            yield from _call_frames(call)


def _media_frames(media: Media) -> Iterator[Said]:
    about = {"media_type": media.media_type, **({"name": media.name} if media.name else {})}
    if media.data is not None and len(media.data) <= LARGEST_MEDIA:
        yield MEDIA, {**about, "data": base64.b64encode(media.data).decode()}
    elif media.data is not None:
        size = f"{len(media.data):,} bytes, and at most {LARGEST_MEDIA:,} go over the bus"
        yield "notice", {"text": f"a file that the model made was left out ({media.media_type}): it has {size}"}
    elif media.url:
        yield MEDIA, {**about, "url": media.url}


def _call_frames(call: ServiceCall) -> Iterator[Said]:
    said: dict[str, Any] = {"id": call.id, "name": call.name, **({"failed": True} if call.failed else {})}
    left_out: list[str] = []
    for name, value in (("arguments", call.arguments), ("result", call.result)):
        if value is None:
            continue
        if _size(value) > LARGEST_JSON:
            left_out.append(name)
        else:
            said[name] = value
    yield SERVICE_CALL, said
    for name in left_out:
        yield (
            "notice",
            {"text": f"left out as too large for the bus: the {name} of {call.name[:80]}, which the service ran"},
        )


def _size(value: Any) -> int:
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return LARGEST_JSON + 1  # it has no JSON form


def extra_event(event: str, data: Mapping[str, Any]) -> ModelEvent | None:
    """What a frame tells; None if it is none of these.

    Raises:
        msgspec.ValidationError: It cannot be read.
    """
    match event:
        case "citation":
            return CitationAdded(citation=msgspec.convert(data, Citation))
        case "media":
            media = msgspec.convert({**data, "type": "media"}, Media)
            if media.data is not None and len(media.data) > LARGEST_MEDIA:
                return Notice(text=f"the node sent a file of more than {LARGEST_MEDIA:,} bytes, which was not taken")
            return MediaAdded(media=media)
        case "service_call":
            return ServiceCallMade(call=msgspec.convert(data, ServiceCall))
    return None


_REFUSED = frozenset(code for code, wire in WIRE.items() if wire.http in (400, 401, 403, 404, 410, 501))
"""Codes of a request that would be refused again."""
_UNAVAILABLE = frozenset({"capacity_exceeded", "partition", "timeout", "cancelled"})


def model_error(error: BusError) -> ModelError:
    """An error of the bus as whoever asks a model knows it; the error itself is its cause."""
    found = _model_error(error)
    found.__cause__ = error
    return found


def _model_error(error: BusError) -> ModelError:
    delay = None if error.retry_after_ms is None else error.retry_after_ms / 1000
    if error.details.get("reason") == BROKEN_CHOICE:
        return BrokenChoice(str(error))
    if error.code == "rate_limited":
        return RateLimited(str(error), retry_after=delay)
    if error.code in _UNAVAILABLE:
        return ModelUnavailable(str(error), retry_after=delay)
    return (RequestRefused if error.code in _REFUSED else ModelError)(str(error))


def bus_error(error: ModelError) -> BusError:
    """What a model's failure is on the wire."""
    words = str(error)
    match error:
        case BrokenChoice():
            return BusError("internal_error", words, reason=BROKEN_CHOICE)
        case RateLimited(retry_after=delay):
            return BusError("rate_limited", words, retry_after_ms=None if delay is None else round(delay * 1000))
        case RequestRefused(status=404):
            return BusError("not_found", words)
        case RequestRefused(status=401 | 403):
            # The key is the node's: the caller can do nothing about it.
            return BusError("internal_error", "the service behind the model does not let this node in")
        case RequestRefused():
            return BusError("bad_request", words)
        case ModelUnavailable(__cause__=TimeoutError()):
            return BusError("timeout", words)
    return BusError("internal_error", words)
