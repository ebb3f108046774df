"""OpenAI's older Completions, as servers of one's own still speak it: a text goes in, and what follows it comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from msgspec import Struct

from handrail.core.errors import ProtocolError
from handrail.core.events import ModelEvent, Notice, ReplyFinished, TextDelta
from handrail.core.messages import StopReason, Usage
from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.history import text_to_continue
from handrail.models.openai_chat.reply_types import read_chat_chunk
from handrail.models.openai_chat.usage_and_errors import error_from_stream, usage_of
from handrail.models.profiles import Profile
from handrail.models.shared_encoding import named_settings

_SETTINGS = {"max_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p", "stop": "stop", "seed": "seed"}
_STOPS: dict[str, StopReason] = {"stop": "end", "length": "max_tokens", "content_filter": "content_filter"}


class CompletionsCodec(Struct, frozen=True):
    """A `Codec` for requests with one user message, whose text the model continues."""

    profile: Profile

    provider: ClassVar[str] = "openai_completions"

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        """A request that continues one text.

        Raises:
            UsageError: The request is more than one text.
        """
        body: dict[str, Any] = {
            "model": model,
            "prompt": text_to_continue(request),
            **named_settings(request, _SETTINGS),
        }
        if stream:
            body["stream"] = True
            if self.profile.stream_usage:
                body["stream_options"] = {"include_usage": True}
        return WireRequest(path="/completions", body=body, framing="sse" if stream else "json")

    def decoder(self, request: ModelRequest) -> CompletionsDecoder:
        return CompletionsDecoder()


class CompletionChoice(Struct):
    index: int | None = None
    text: str | None = None
    finish_reason: str | None = None


class CompletionChunk(Struct):
    model: str | None = None
    choices: list[CompletionChoice] | None = None
    usage: dict[str, Any] | None = None


class CompletionsDecoder:
    def __init__(self) -> None:
        self._model = ""
        self._finish: str | None = None
        self._usage = Usage()

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        if data.get("error"):
            raise error_from_stream(data)
        chunk = read_chat_chunk(data, CompletionChunk)
        self._model = chunk.model or self._model
        if chunk.usage:
            self._usage = usage_of(chunk.usage)
        for choice in chunk.choices or ():
            if choice.index:
                continue  # one was asked for
            if choice.text:
                yield TextDelta(text=choice.text)
            self._finish = choice.finish_reason or self._finish

    def finish(self) -> Iterator[ModelEvent]:
        if self._finish is None:
            raise ProtocolError("the reply ended without a finish reason: it was cut off")
        if self._finish not in _STOPS:
            yield Notice(text=f"the service ended the reply for a reason of its own: {self._finish!r}")
        yield ReplyFinished(stop=_STOPS.get(self._finish, "end"), model=self._model, usage=self._usage)
