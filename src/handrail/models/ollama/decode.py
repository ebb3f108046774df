"""Ollama's `/api/chat` and `/api/generate` into events, streamed by lines or whole. A call comes whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from handrail.core.errors import ProtocolError
from handrail.core.events import CallRequested, ModelEvent, Notice, ReasoningDelta, ReplyFinished, TextDelta
from handrail.core.ids import NewId, new_id
from handrail.core.messages import Artefact, StopReason, Usage
from handrail.core.model_request import ModelRequest
from handrail.models.call_assembly import CallAssembler
from handrail.models.ollama.encode import PROVIDER
from handrail.models.openai_chat.reply_types import read_chat_chunk
from handrail.models.openai_chat.usage_and_errors import error_from_stream
from handrail.models.shared_decoding import token_count_of
from handrail.models.shared_encoding import names_of
from handrail.models.tool_names import OLLAMA_NAMES
from handrail.models.unknown_kinds import UnknownKinds

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


class OllamaDecoder:
    def __init__(self, request: ModelRequest, new_id: NewId = new_id) -> None:
        self._calls = CallAssembler(new_id, names_of(request.tools, OLLAMA_NAMES))
        self._thoughts: list[str] = []
        self._called = False
        self._count = 0
        self._last: OllamaLine | None = None
        self._usage = Usage()
        self._unknown = UnknownKinds()

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
            self._last = line
            self._usage = Usage(
                input_tokens=token_count_of(data, "prompt_eval_count"), output_tokens=token_count_of(data, "eval_count")
            )

    def finish(self) -> Iterator[ModelEvent]:
        if self._last is None:
            raise ProtocolError(f"the reply ended before it was done: it was cut off{self._unknown.words}")
        reason = self._last.done_reason or "stop"
        if reason not in _STOPS:
            yield Notice(text=f"the service ended the reply for a reason of its own: {reason!r}")
        stop = _STOPS.get(reason, "end")
        thoughts = "".join(self._thoughts)
        yield ReplyFinished(
            stop="tool_calls" if stop == "end" and self._called else stop,
            model=self._last.model or "",
            usage=self._usage,
            artefacts=(Artefact(PROVIDER, {"thinking": thoughts}),) if thoughts else (),
        )

    def _call(self, call: OllamaCall) -> Iterator[ModelEvent]:
        index, self._count = self._count, self._count + 1  # its own index begins anew with every line
        arguments = {} if call.function.arguments is None else call.function.arguments
        yield from self._calls.delta(index=index, id=call.id, name=call.function.name, arguments=arguments)
        for event in self._calls.complete(index):
            self._called = self._called or isinstance(event, CallRequested)
            yield event
