"""Ollama's `/api/generate` without the model's template: a text goes in, and what follows it comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from handrail.core.errors import ProtocolError
from handrail.core.events import ModelEvent, Notice, ReplyFinished, TextDelta
from handrail.core.messages import StopReason, Usage
from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.history import text_to_continue
from handrail.models.ollama.encode import SETTINGS
from handrail.models.openai_chat.reply_types import read_chat_chunk
from handrail.models.openai_chat.usage_and_errors import error_from_stream
from handrail.models.shared_decoding import token_count_of
from handrail.models.shared_encoding import named_settings

_STOPS: dict[str, StopReason] = {"stop": "end", "length": "max_tokens"}


class OllamaGenerateCodec(Struct, frozen=True):
    """A `Codec` for requests with one user message, whose text the model continues."""

    @property
    def provider(self) -> str:
        return "ollama"

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        """
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

    def decoder(self, request: ModelRequest) -> OllamaGenerateDecoder:
        return OllamaGenerateDecoder()


class OllamaGenerateLine(Struct):
    model: str | None = None
    response: str | None = None
    done: bool = False
    done_reason: str | None = None


class OllamaGenerateDecoder:
    def __init__(self) -> None:
        self._last: OllamaGenerateLine | None = None
        self._usage = Usage()

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        if data.get("error"):
            raise error_from_stream(data)
        line = read_chat_chunk(data, OllamaGenerateLine)
        if line.response:
            yield TextDelta(text=line.response)
        if line.done:
            self._last = line
            self._usage = Usage(
                input_tokens=token_count_of(data, "prompt_eval_count"), output_tokens=token_count_of(data, "eval_count")
            )

    def finish(self) -> Iterator[ModelEvent]:
        if self._last is None:
            raise ProtocolError("the reply ended before it was done: it was cut off")
        reason = self._last.done_reason or "stop"
        if reason not in _STOPS:
            yield Notice(text=f"the service ended the reply for a reason of its own: {reason!r}")
        yield ReplyFinished(stop=_STOPS.get(reason, "end"), model=self._last.model or "", usage=self._usage)
