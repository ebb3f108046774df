"""A codec that carries nothing but text, and what comes of a reply in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from handrail.core.calls import ToolCall
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import Conversation, StopReason
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.codec import Decoder, WireRequest
from handrail.models.prompted.codec import PromptedCodec

WEATHER = ToolOffer(
    "get_weather",
    "Get the current weather.",
    {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "City and country."},
            "days": {"type": "integer", "default": 1},
        },
        "required": ["location"],
    },
)
SEARCH = ToolOffer("search", "Search.", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})
TOOLS = (WEATHER, SEARCH)


class TextDecoder:
    def __init__(self) -> None:
        self._stop: StopReason | None = None

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        yield TextDelta(text=data["text"])

    def finish(self) -> Iterator[ModelEvent]:
        yield ReplyFinished(stop=self._stop or "end")


class CutDecoder(TextDecoder):
    def finish(self) -> Iterator[ModelEvent]:
        yield ReplyFinished(stop="max_tokens")


class TextCodec:
    """As plain a service as there can be."""

    provider = "text"

    def __init__(self, decoder: type[TextDecoder] = TextDecoder) -> None:
        self._decoder = decoder
        self.seen: list[ModelRequest] = []

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        self.seen.append(request)
        return WireRequest(path="/", body={"model": model, **request.extra})

    def decoder(self, request: ModelRequest) -> Decoder:
        return self._decoder()


def asked(*tools: ToolOffer) -> ModelRequest:
    return ModelRequest(messages=Conversation().say("Hello").messages, tools=tools or TOOLS)


def events(format: str, pieces: Iterable[str], *tools: ToolOffer, cut: bool = False) -> list[ModelEvent]:
    """The events of a reply that comes in these pieces."""
    numbers = count(1)
    codec = PromptedCodec(TextCodec(CutDecoder if cut else TextDecoder), format, lambda kind: f"{kind}_{next(numbers)}")
    decoder = codec.decoder(asked(*tools))
    found = [event for piece in pieces for event in decoder.feed({"text": piece})]
    return [*found, *decoder.finish()]


def read(format: str, reply: str, *tools: ToolOffer) -> tuple[str, list[tuple[str, Any]]]:
    """The text and the calls of a reply, in whatever order."""
    found = events(format, [reply], *tools)
    return text_of(found), [(call.name, call.arguments) for call in calls_of(found)]


def text_of(found: Iterable[ModelEvent]) -> str:
    return "".join(event.text for event in found if isinstance(event, TextDelta))


def calls_of(found: Iterable[ModelEvent]) -> list[ToolCall]:
    return [event.call for event in found if isinstance(event, CallRequested)]


def joined(found: Iterable[ModelEvent]) -> list[ModelEvent]:
    """With texts that follow each other in one."""
    out: list[ModelEvent] = []
    for event in found:
        if isinstance(event, TextDelta) and out and isinstance(out[-1], TextDelta):
            out[-1] = TextDelta(text=out[-1].text + event.text)
        else:
            out.append(event)
    return out
