"""Recordings in `recordings/`: what a service sent, as the events that a decoder is fed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from handrail.core.events import CitationAdded, MediaAdded, ModelEvent, ServiceCallMade
from handrail.core.messages import AssistantMessage, Message
from handrail.providers.anthropic import AnthropicCodec
from handrail.providers.bedrock import BedrockCodec
from handrail.providers.codec import Codec
from handrail.providers.gemini import GeminiCodec
from handrail.providers.openai_chat import OpenAIChatCodec
from handrail.providers.openai_responses import OpenAIResponsesCodec
from tests.providers.rounds import asked, end_of, messages_of

FOLDER = Path(__file__).parent / "recordings"
CODECS: dict[str, tuple[Codec, str]] = {
    "anthropic": (AnthropicCodec(), "claude-sonnet-4-5"),
    "bedrock": (BedrockCodec(), "amazon.nova-2-lite-v1:0"),
    "gemini": (GeminiCodec(), "gemini-3-pro"),
    "openai_chat": (OpenAIChatCodec(server="openrouter"), "gpt-4o-search-preview"),
    "openai_responses": (OpenAIResponsesCodec(), "gpt-5-mini"),
}


def wire_events(name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The events of a recording, each with the name that SSE gives it."""
    text = (FOLDER / name).read_text("utf-8")
    if name.endswith(".json"):
        yield json.loads(text), ""
        return
    for frame in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.split("\n"))
        if fields["data"] != "[DONE]":
            yield json.loads(fields["data"]), fields.get("event", "")


def replied(name: str, **settings: Any) -> list[ModelEvent]:
    """What the codec of its wire makes of a recording."""
    codec, _ = CODECS[name.partition("/")[0]]
    decoder = codec.decoder(asked(**settings))
    events = [event for data, sent_as in wire_events(name) for event in decoder.feed(data, sent_as)]
    return [*events, *decoder.finish()]


def message_of(events: list[ModelEvent]) -> AssistantMessage:
    """The message that a run keeps of a reply without calls."""
    said: Message = messages_of(events)[0]
    assert isinstance(said, AssistantMessage)
    return AssistantMessage(
        said.text,
        stop=said.stop,
        artefacts=end_of(events).artefacts,
        citations=tuple(event.citation for event in events if isinstance(event, CitationAdded)),
        media=tuple(event.media for event in events if isinstance(event, MediaAdded)),
        service_calls=tuple(event.call for event in events if isinstance(event, ServiceCallMade)),
    )
