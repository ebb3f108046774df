"""Messages of Anthropic and OpenAI, read back into ours. Writing whole conversations is the codecs' work.

A reply in a history has the same form as a reply that has just come, so the codec's
decoder reads it; only what users, systems and tools said is read here.
"""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from handrail.core.calls import Attachment, Problem, ToolCall, ToolResult
from handrail.core.errors import ProtocolError, UsageError
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.ids import NewId
from handrail.core.jsontext import object_or_text
from handrail.core.messages import (
    AssistantMessage,
    Content,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.codec import Codec

Native = Mapping[str, Any]


class NativeDialect(ABC):
    """What both have in common: a list of messages, replies that a decoder reads, results that name their call."""

    kept: ClassVar[tuple[str, ...]]
    """The fields of a request that are the conversation."""

    def __init__(self, new_id: NewId) -> None:
        self._new_id = new_id

    @abstractmethod
    def codec(self) -> Codec: ...

    def write(self, request: ModelRequest) -> dict[str, Any]:
        body = self.codec().encode(request, "-", stream=False).body
        return {key: body[key] for key in self.kept if key in body}

    def read(self, native: Native | Sequence[Native], offers: tuple[ToolOffer, ...]) -> tuple[Message, ...]:
        system: list[Message] = []
        if isinstance(native, Mapping):
            system = [SupervisorMessage(_text(native["system"]))] if native.get("system") else []
            listed: Sequence[Native] = native.get("messages", [native])
        else:
            listed = native
        request = ModelRequest(messages=(), tools=offers)
        names: dict[str, str] = {}
        found: list[Message] = []
        for message in listed:
            for read in self._read(message, request, names):
                if isinstance(read, InvocationMessage):
                    names[read.id] = read.call.name
                found.append(read)
        return (*system, *found)

    def _read(self, message: Native, request: ModelRequest, names: Mapping[str, str]) -> Iterator[Message]:
        match message.get("role"):
            case "assistant":
                yield from self._reply(message, request)
            case "user":
                yield from self.said(message.get("content"), names)
            case "system" | "developer":
                yield SupervisorMessage(_text(message.get("content")))
            case "tool":
                yield _result(message, str(message.get("tool_call_id", "")), names)
            case role:
                raise UsageError(f"{role!r} is not the role of a message; there are user, assistant, system and tool")

    def _reply(self, message: Native, request: ModelRequest) -> Iterator[Message]:
        decoder = self.codec().decoder(request)
        try:
            events = [*decoder.feed(self.reply(message)), *decoder.finish()]
        except ProtocolError as error:
            raise UsageError(f"not a reply of this provider: {error}") from error
        yield from _messages(events)

    def said(self, content: Any, names: Mapping[str, str]) -> Iterator[Message]:
        yield UserMessage(tuple(_contents(content)))

    def _flat_call(self, written: Native) -> ToolCall:
        """A call as the converser writes it: id, name and arguments side by side. Without an id, it is given one.

        Raises:
            UsageError: It has no name.
        """
        call = ToolCall.from_dict(written)
        return call if call.id else msgspec.structs.replace(call, id=self._new_id("call"))

    @abstractmethod
    def reply(self, message: Native) -> dict[str, Any]:
        """A message of a history as the reply that it once was."""

    @abstractmethod
    def invocation(self, call: ToolCall) -> dict[str, Any]: ...

    @abstractmethod
    def result(self, result: ToolResult) -> dict[str, Any]: ...


class AnthropicDialect(NativeDialect):
    kept = ("system", "messages")

    def codec(self) -> Codec:
        from handrail.models.anthropic import AnthropicCodec

        return AnthropicCodec(new_id=self._new_id)

    def said(self, content: Any, names: Mapping[str, str]) -> Iterator[Message]:
        """Results come first in what a user says, each a message of its own."""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
        for block in blocks:
            if block.get("type") == "tool_result":
                yield _result(block, str(block.get("tool_use_id", "")), names)
        words = tuple(_contents([block for block in blocks if block.get("type") != "tool_result"]))
        if words:
            yield UserMessage(words)

    def reply(self, message: Native) -> dict[str, Any]:
        content = message.get("content") or []
        said = [{"type": "text", "text": content}] if isinstance(content, str) else content
        flat = [call for call in message.get("tool_calls") or () if _is_flat(call)]
        blocks = [*said, *(self.invocation(self._flat_call(call)) for call in flat)]
        calls = any(block.get("type") == "tool_use" for block in blocks)
        usage = {"input_tokens": 0, "output_tokens": 0}
        reply = {"type": "message", "role": "assistant", "model": "", "content": blocks, "usage": usage}
        return {**reply, "stop_reason": "tool_use" if calls else "end_turn"}

    def invocation(self, call: ToolCall) -> dict[str, Any]:
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": object_or_text(call.arguments)}

    def result(self, result: ToolResult) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": result.tool_call_id, "content": result.text}
        return {**block, "is_error": True} if result.is_error else block


class OpenAIDialect(NativeDialect):
    kept = ("messages",)

    def codec(self) -> Codec:
        from handrail.models.openai_chat import OpenAIChatCodec

        return OpenAIChatCodec(new_id=self._new_id)

    def reply(self, message: Native) -> dict[str, Any]:
        said = {**message, "content": _text(message.get("content")) if message.get("content") else None}
        if calls := message.get("tool_calls"):
            said["tool_calls"] = [self._nested(call) if _is_flat(call) else call for call in calls]
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        return {"model": "", "choices": [{"index": 0, "message": said, "finish_reason": finish}]}

    def _nested(self, flat: Native) -> dict[str, Any]:
        nested: dict[str, Any] = self.invocation(self._flat_call(flat))["tool_calls"][0]
        return nested

    def invocation(self, call: ToolCall) -> dict[str, Any]:
        text = call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()
        function = {"name": call.name, "arguments": text}
        called = [{"id": call.id, "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": called}

    def result(self, result: ToolResult) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": result.tool_call_id, "content": result.text}


def _is_flat(call: Any) -> bool:
    return isinstance(call, Mapping) and "function" not in call and "custom" not in call


def _messages(events: Iterable[ModelEvent]) -> Iterator[Message]:
    text: list[str] = []
    calls: list[InvocationMessage] = []
    finished = ReplyFinished(stop="end")
    for event in events:
        match event:
            case TextDelta(text=piece):
                text.append(piece)
            case CallRequested(call=call, artefacts=artefacts):
                read = ToolCall(call.id, call.name, object_or_text(call.arguments))
                calls.append(InvocationMessage(read, artefacts=artefacts))
            case ReplyFinished():
                finished = event
    stop = "tool_calls" if calls else finished.stop
    yield AssistantMessage("".join(text), stop=stop, artefacts=finished.artefacts)
    yield from calls


def _result(message: Native, id: str, names: Mapping[str, str]) -> ResultMessage:
    parts = tuple(_contents(message.get("content") or ""))
    text = "".join(part.text for part in parts if isinstance(part, Text))
    media = [part for part in parts if isinstance(part, Media)]
    failed = message.get("is_error") is True
    return ResultMessage(
        ToolResult(
            id,
            names.get(id, ""),
            text,
            outcome="failed" if failed else "ok",
            error=Problem("failed", text) if failed else None,
            attachments=tuple(Attachment(each.name, each.media_type, each.data or b"") for each in media),
        )
    )


def _text(content: Any) -> str:
    return "".join(part.text for part in _contents(content) if isinstance(part, Text))


def _contents(content: Any) -> Iterator[Content]:
    if isinstance(content, str):
        yield Text(content)
        return
    for part in content or ():
        yield _content(part)


def _content(part: Native) -> Content:
    match part:
        case {"type": "text" | "input_text", "text": str(text)}:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return _from_url(url)
        case {"type": "image" | "document", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            return Media(media_type=kind, data=_decoded(data), name=part.get("title") or "")
        case {"type": "image" | "document" as what, "source": {"type": "url", "url": str(url)}}:
            return Media(media_type="image/*" if what == "image" else "application/pdf", url=url)
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            return Text(text)
    raise UsageError(f"a part of type {part.get('type')!r} cannot be read; there are texts, images and documents")


def _from_url(url: str) -> Media:
    head, comma, data = url.partition(",")
    if not url.startswith("data:") or not comma:
        return Media(media_type="image/*", url=url)
    return Media(media_type=head.removeprefix("data:").partition(";")[0], data=_decoded(data))


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise UsageError(f"an image is not base64: {error}") from error
