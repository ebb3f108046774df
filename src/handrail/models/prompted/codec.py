"""Prompted tool calling: a codec around any codec that can carry text.

The tools go into the system text, past calls and results into the conversation, and
what the model writes comes out as calls. Used where the caller or the profile asks for
it, never in secret; `compiled_prompt` is what the model is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.calls import ToolCall
from handrail.core.events import (
    CallDelta,
    CallRequested,
    ModelEvent,
    Notice,
    ReasoningDelta,
    ReplyFinished,
    TextDelta,
)
from handrail.core.ids import NewId, new_id
from handrail.core.model_request import ModelRequest
from handrail.models.codec import Codec, CompletingCodec, Decoder, EndAwareDecoder, WireRequest
from handrail.models.grammar.server_fields import Server, tool_call_fields
from handrail.models.history import arguments_text
from handrail.models.prompted.call_detector import CallDetector, DetectedThought
from handrail.models.prompted.call_parser import canonical_call
from handrail.models.prompted.formats import CallFormat, format_named
from handrail.models.prompted.found_call import FoundCall, Schemas
from handrail.models.prompted.harmony_detector import HarmonyDetector
from handrail.models.prompted.prompt_text import tools_prompt, usable_tools
from handrail.models.prompted.text_conversation import conversation_as_text
from handrail.models.supported_features import check_choice, refuse_builtin


class PromptedCodec(Struct, frozen=True):
    """Calls as text of one format, in the wire of another codec.

    With `server`, the kind of server that answers, it is also held to the tools' schemas as it writes, as far as
    that server can do it.
    """

    inner: Codec
    format: str = "hermes"
    new_id: NewId = new_id
    server: Server | None = None
    keep_tokens: bool = False
    """Ask the server not to leave special tokens out of the text, as vLLM does unless told; some formats are made of
    them."""

    def __post_init__(self) -> None:
        format_named(self.format)

    @property
    def provider(self) -> str:
        return self.inner.provider

    @property
    def calls_are_text(self) -> bool:
        return True

    def compiled_prompt(self, request: ModelRequest) -> str:
        """What the model is told about the tools, to the letter; empty if it may use none."""
        return tools_prompt(request, format_named(self.format))

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        """Encodes like the inner codec, with the tools as text.

        Raises:
            UsageError: The choice names a tool that is not offered.
        """
        format = format_named(self.format)
        check_choice(request)
        refuse_builtin(request, "prompted calling")
        constraint = tool_call_fields(request, format, self.server)
        plain = replace(
            request,
            messages=conversation_as_text(request.messages, format, schemas_of(request), tools_prompt(request, format)),
            tools=(),
            tool_choice="auto",
            stop=(*request.stop, *format.stop) if usable_tools(request) else request.stop,
            extra={**self._token_fields(request, format), **request.extra, **constraint.fields},
        )
        wire = self.inner.encode(plain, model, stream=stream)
        return replace(wire, notices=(*wire.notices, *constraint.notices))

    def text_codec(self, model: str) -> Codec | None:
        return self.inner.text_codec(model) if isinstance(self.inner, CompletingCodec) else None

    def _token_fields(self, request: ModelRequest, format: CallFormat) -> dict[str, Any]:
        return {"skip_special_tokens": False} if self.keep_tokens and format.tokens and usable_tools(request) else {}

    def decoder(self, request: ModelRequest) -> Decoder:
        inner = self.inner.decoder(replace(request, tools=(), tool_choice="auto"))
        format = format_named(self.format).name
        if not usable_tools(request) and format != "harmony":  # which has marks in every reply, also without tools
            return inner
        return PromptedDecoder(inner, format, schemas_of(request), self.new_id)


class PromptedDecoder:
    """The inner decoder's events, with the calls taken out of the text."""

    def __init__(self, inner: Decoder, format: str, schemas: Schemas, new_id: NewId) -> None:
        self._inner = inner
        self._detector = HarmonyDetector(schemas) if format == "harmony" else CallDetector(format, schemas)
        self._new_id = new_id
        self._asked: set[tuple[str, str]] = set()
        self._printed: set[tuple[str, str]] = set()
        """Those of them that were found in the text."""

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        for item in self._inner.feed(data, event):
            yield from self._translated(item)

    def done(self) -> None:
        if isinstance(self._inner, EndAwareDecoder):
            self._inner.done()

    def finish(self) -> Iterator[ModelEvent]:
        for item in self._inner.finish():
            yield from self._translated(item)

    def _translated(self, event: ModelEvent) -> Iterator[ModelEvent]:
        match event:
            case TextDelta(text=text):
                yield from self._events(self._detector.feed(text))
            case CallRequested(call=call):
                # The server read it itself. If it also left it in the text, it is still one call.
                key = canonical_call(FoundCall(call.name, arguments_text(call)))
                if key in self._printed:
                    self._printed.remove(key)
                    return
                self._asked.add(key)
                yield event
            case ReplyFinished(stop=stop):
                yield from self._events(self._detector.finish(cut=stop in ("max_tokens", "content_filter")))
                yield from self._end(event)
            case _:
                yield event

    def _events(self, pieces: Iterator[str | FoundCall | DetectedThought]) -> Iterator[ModelEvent]:
        for piece in pieces:
            match piece:
                case str():
                    yield TextDelta(text=piece)
                case DetectedThought(text):
                    yield ReasoningDelta(text=text)
                case FoundCall():
                    yield from self._call(piece)

    def _call(self, found: FoundCall) -> Iterator[ModelEvent]:
        key = canonical_call(found)
        if key in self._asked:
            return
        self._asked.add(key)
        self._printed.add(key)
        id = self._new_id("call")
        yield CallDelta(call_id=id, name=found.name, arguments=found.arguments)
        yield CallRequested(call=ToolCall(id, found.name, found.arguments))

    def _end(self, event: ReplyFinished) -> Iterator[ModelEvent]:
        if self._detector.dropped:
            yield Notice(text="the reply was cut off in the middle of a tool call, which was dropped; raise max_tokens")
        stopped: tuple[Literal["end", "stop_sequence"], ...] = ("end", "stop_sequence")
        yield replace(event, stop="tool_calls") if self._asked and event.stop in stopped else event


def schemas_of(request: ModelRequest) -> Schemas:
    return {tool.name: tool.input_schema for tool in request.tools}
