"""Ollama's `/api/generate` without the model's template: a text goes in, and what follows it comes out."""

from __future__ import annotations

from typing import ClassVar

from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.history import text_to_continue
from handrail.models.ollama.decode import OllamaDecoder
from handrail.models.ollama.encode import PROVIDER, SETTINGS
from handrail.models.reply_decoder import ReplyDecoder
from handrail.models.shared_encoding import named_settings
from handrail.models.standard_codec import StandardCodec
from handrail.models.tool_names import OLLAMA_NAMES


class OllamaGenerateCodec(StandardCodec, frozen=True):
    """A `Codec` for requests with one user message, whose text the model continues."""

    provider = PROVIDER
    name_rule = OLLAMA_NAMES
    reply_decoder: ClassVar[type[ReplyDecoder]] = OllamaDecoder

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        """A request that continues one text.

        Raises:
            UsageError: The request is more than one text.
        """
        body = {
            "model": model,
            "prompt": text_to_continue(request),
            "raw": True,
            "stream": stream,
            "options": named_settings(request, SETTINGS),
        }
        return WireRequest(path="/api/generate", body=body, framing="ndjson" if stream else "json")
