"""Replies read as a runner reads them, for tests that send them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from handrail.core.calls import ToolCall
from handrail.core.events import CallRequested, ModelEvent, Notice, ReasoningDelta, ReplyFinished, TextDelta
from handrail.core.ids import NewId
from handrail.core.messages import AssistantMessage, InvocationMessage, Message, Text as Said, UserMessage
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.codec import Codec

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"location": {"type": "string"}},
    "required": ["location"],
    "additionalProperties": False,
}
WEATHER = ToolOffer("get_weather", "The weather now.", SCHEMA)
CLOCK = ToolOffer("clock", "The time.", {"type": "object", "properties": {}, "additionalProperties": False})


def numbered() -> NewId:
    numbers = count(1)
    return lambda kind: f"{kind}_{next(numbers)}"


def asked(*messages: Message, **settings: Any) -> ModelRequest:
    return ModelRequest(messages=messages or (UserMessage((Said("Weather in Lisbon?"),)),), **settings)


def decoded(codec: Codec, wire: Iterable[Mapping[str, Any]], request: ModelRequest | None = None) -> list[ModelEvent]:
    decoder = codec.decoder(request or asked(tools=(WEATHER, CLOCK)))
    events = [event for data in wire for event in decoder.feed(data)]
    return [*events, *decoder.finish()]


def messages_of(events: Iterable[ModelEvent]) -> list[Message]:
    """What a runner adds to the conversation."""
    events = list(events)
    end = events[-1]
    assert isinstance(end, ReplyFinished)
    calls = [InvocationMessage(e.call, artefacts=e.artefacts) for e in events if isinstance(e, CallRequested)]
    return [AssistantMessage(text_of(events), stop=end.stop, artefacts=end.artefacts), *calls]


def text_of(events: Iterable[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def thoughts_of(events: Iterable[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ReasoningDelta))


def calls_of(events: Iterable[ModelEvent]) -> list[ToolCall]:
    return [event.call for event in events if isinstance(event, CallRequested)]


def notices_of(events: Iterable[ModelEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def end_of(events: list[ModelEvent]) -> ReplyFinished:
    assert isinstance(events[-1], ReplyFinished)
    return events[-1]
