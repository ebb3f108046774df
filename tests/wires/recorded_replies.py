"""Recordings of replies in which a service did something itself, read and kept as a run does."""

from __future__ import annotations

from typing import Any

from handrail.core.events import ModelEvent
from handrail.core.messages import AssistantMessage
from handrail.models.anthropic import AnthropicCodec
from handrail.models.bedrock import BedrockCodec
from handrail.models.codec import Codec
from handrail.models.gemini import GeminiCodec
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.openai_responses import OpenAIResponsesCodec
from handrail.models.wire_events import END
from tests.models.reply_rounds import asked
from tests.wires.recording_player import FOLDER, Recording, history

CODECS: dict[str, tuple[Codec, str]] = {
    "anthropic": (AnthropicCodec(), "claude-sonnet-4-5"),
    "bedrock": (BedrockCodec(), "amazon.nova-2-lite-v1:0"),
    "gemini": (GeminiCodec(), "gemini-3-pro"),
    "openai_chat": (OpenAIChatCodec(server="openrouter"), "gpt-4o-search-preview"),
    "openai_responses": (OpenAIResponsesCodec(), "gpt-5-mini"),
}


def wire_data(name: str) -> list[dict[str, Any]]:
    """The events of a recording, or the one document that it is."""
    return [event.data for event in Recording(FOLDER / name).events() if event is not END]


def replied(name: str) -> list[ModelEvent]:
    """What the codec of its wire makes of a recording."""
    codec, _ = CODECS[name.partition("/")[0]]
    decoder = codec.decoder(asked())
    events = [event for data in wire_data(name) for event in decoder.feed(data)]
    return [*events, *decoder.finish()]


def message_of(events: list[ModelEvent]) -> AssistantMessage:
    """The message that a run keeps of a reply."""
    (found,) = (message for message in history(events) if isinstance(message, AssistantMessage))
    return found
