"""Ollama's `/api/chat` and `/api/generate` into events, streamed by lines or whole. A call comes whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.events import CallRequested, ModelEvent, Notice, ReasoningDelta, TextDelta
from handrail.core.ids import NewId
from handrail.core.messages import Artefact, StopReason
from handrail.models.ollama.encode import PROVIDER
from handrail.models.openai_chat.reply_types import read_chat_chunk
from handrail.models.openai_chat.usage_and_errors import error_from_stream
from handrail.models.reply_decoder import ReplyDecoder
from handrail.models.shared_decoding import usage_by_keys
from handrail.models.tool_names import NameMap

_USAGE = {"input_tokens": ("prompt_eval_count",), "output_tokens": ("eval_count",)}
_STOPS: dict[str, StopReason] = {"stop": "end", "length": "max_tokens"}


class OllamaFunction(Struct):
    name: str
    arguments: dict[str, Any] | str | None = None


class OllamaCall(Struct):
    function: OllamaFunction
    id: str | None = None


class OllamaMessage(Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[OllamaCall] | None = None


class OllamaLine(Struct):
    model: str | None = None
    message: OllamaMessage | None = None
    response: str | None = None
    """The text of `/api/generate`, which has no message."""
    done: bool = False
    done_reason: str | None = None


class OllamaDecoder(ReplyDecoder):
    provider = PROVIDER

    def __init__(self, names: NameMap, new_id: NewId) -> None:
        super().__init__(names, new_id)
        self._thoughts: list[str] = []
        self._count = 0

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        if data.get("error"):
            raise error_from_stream(data)
        line = read_chat_chunk(data, OllamaLine)
        message = line.message or OllamaMessage()
        if message.thinking:
            self._thoughts.append(message.thinking)
            yield ReasoningDelta(text=message.thinking)
        if text := message.content or line.response:
            yield TextDelta(text=text)
        for call in message.tool_calls or ():
            yield from self._call(call)
        if line.message is None and line.response is None and not line.done:
            yield from self._unknown.event(event or " ".join(sorted(data)))
        if line.done:
            self._stop = line.done_reason or "stop"
            self._model = line.model or ""
            self._usage = dict(data)

    def finish(self) -> Iterator[ModelEvent]:
        stop = self._stop_reason(_STOPS, "end: it was cut off")
        if self._stop not in _STOPS:
            yield Notice(text=f"the service ended the reply for a reason of its own: {self._stop!r}")
        end = self._finished(stop, usage_by_keys(self._usage, _USAGE))
        thoughts = "".join(self._thoughts)
        yield replace(end, artefacts=(Artefact(PROVIDER, {"thinking": thoughts}),)) if thoughts else end

    def _call(self, call: OllamaCall) -> Iterator[ModelEvent]:
        index, self._count = self._count, self._count + 1  # its own index starts at 0 with every line
        arguments = {} if call.function.arguments is None else call.function.arguments
        yield from self._calls.delta(index=index, id=call.id, name=call.function.name, arguments=arguments)
        for event in self._calls.complete(index):
            if isinstance(event, CallRequested):
                self._layout.called()
            yield event
