"""The codecs by the name of their wire. A codec is imported when it is first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

CODECS: Mapping[str, str] = {
    "anthropic": "handrail.models.anthropic:AnthropicCodec",
    "anthropic_vertex": "handrail.models.anthropic:VertexAnthropicCodec",
    "bedrock": "handrail.models.bedrock:BedrockCodec",
    "cohere": "handrail.models.cohere:CohereCodec",
    "gemini": "handrail.models.gemini:GeminiCodec",
    "gemini_interactions": "handrail.models.interactions:InteractionsCodec",
    "ollama": "handrail.models.ollama:OllamaCodec",
    "openai_chat": "handrail.models.openai_chat:OpenAIChatCodec",
    "openai_responses": "handrail.models.openai_responses:OpenAIResponsesCodec",
}


def codec_class(wire: str) -> Any:
    """The class of a codec. Its options are the fields of the class."""
    module, _, name = CODECS[wire].partition(":")
    return getattr(importlib.import_module(module), name)
