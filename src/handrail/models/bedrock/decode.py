"""Converse's replies as events, streamed or whole.

An event is an object with one key, as botocore gives it. A block is known by its
index; usage comes after the end of the message.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused
from handrail.core.events import ModelEvent, Notice, ReasoningDelta, TextDelta
from handrail.core.messages import StopReason
from handrail.models.bedrock.service_calls import citations_added, service_call_events, text_of
from handrail.models.bedrock.tools import PROVIDER
from handrail.models.block_decoder import BlockDecoder, object_text, service_input
from handrail.models.service_errors import SHOWN, masked_excerpt
from handrail.models.shared_decoding import usage_by_keys

_SERVER_TOOL = "server_tool_use"
"""The `type` of a tool that the service runs itself. A call of ours has none, or `tool_use`, or one that is yet to
be invented."""
_STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "tool_use": "tool_calls",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
_WORDS = {
    "model_context_window_exceeded": "the reply filled the model's context window",
    "guardrail_intervened": "a guardrail stepped in",
}
_BROKEN = {
    "malformed_tool_use": "the model wrote a call that Bedrock could not read; ask again",
    "malformed_model_output": "the model wrote something that Bedrock could not read; ask again",
}
ERRORS: dict[str, type[ModelError]] = {
    "throttlingException": RateLimited,
    "internalServerException": ModelUnavailable,
    "modelStreamErrorException": ModelUnavailable,
    "modelNotReadyException": ModelUnavailable,
    "modelTimeoutException": ModelUnavailable,
    "modelErrorException": ModelUnavailable,
    "serviceUnavailableException": ModelUnavailable,
    "serviceQuotaExceededException": RateLimited,
    "validationException": RequestRefused,
    "accessDeniedException": RequestRefused,
    "resourceNotFoundException": RequestRefused,
}
_READ = frozenset({"contentBlockDelta", "contentBlockStop", "messageStop", "output"})
"""Kinds of events that mean something; one of them that cannot be read is not passed over."""
_KNOWN_BLOCKS = frozenset({"toolUse", "toolResult", "citationsContent", "searchResult", "guardContent", "image"})
"""Blocks beside text, thoughts and calls, which are kept as they came."""


_USAGE = {
    # This service counts what it read from its cache, and wrote to it, beside the input.
    "input_tokens": ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
    "output_tokens": ("outputTokens",),
    "cached_tokens": ("cacheReadInputTokens",),
    "cache_written_tokens": ("cacheWriteInputTokens",),
}


class _OpenBlock:
    """A block that has begun."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.input: list[str] = []
        self.thoughts: list[str] = []
        self.signature: str | None = None
        self.redacted = b""
        self.results: list[Any] = []
        self.citations: list[Any] = []
        self.text: list[str] = []
        """Text pieces of a block that cites sources."""

    @property
    def is_call(self) -> bool:
        return isinstance(use := self.start.get("toolUse"), dict) and use.get("type") != _SERVER_TOOL


class BedrockDecoder(BlockDecoder[_OpenBlock]):
    provider = PROVIDER

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        match {event: data} if event else dict(data):
            case {"contentBlockDelta": {"contentBlockIndex": int(index), "delta": dict(delta)}}:
                yield from self._delta(index, delta)
            case {"contentBlockStart": {"contentBlockIndex": int(index), "start": dict(start)}}:
                yield from self._start(index, start)
            case {"contentBlockStop": {"contentBlockIndex": int(index)}}:
                yield from self._end(index)
            case {"messageStop": {"stopReason": str(reason)}}:
                self._stopped(reason)
            case {"metadata": {"usage": dict(usage)}}:
                self._note(usage)
            case {"output": {"message": {"content": list(blocks)}}, "stopReason": str(reason), **rest}:
                self._stopped(reason)
                self._note(rest.get("usage"))
                for index, block in enumerate(blocks):
                    yield from self._whole(index, block)
            case {"messageStart": _} | {"metadata": _} | {"contentBlockStart": _}:
                return
            case unread:
                yield from self._unread(unread)

    def finish(self) -> Iterator[ModelEvent]:
        stop = self._stop_reason(_STOPS, "stop reason")
        if any(opened.is_call for opened in self._open.values()):
            raise ProtocolError("the reply ended inside a call; nothing of it can be relied on")
        yield from self._release_held(cut=stop == "max_tokens")
        yield from self._services.unanswered()
        if self._stop in _WORDS or self._stop not in _STOPS:
            yield Notice(text=_WORDS.get(str(self._stop), f"unknown stop reason {self._stop!r}"))
        yield self._finished(stop, usage_by_keys(self._usage, _USAGE))

    def _unread(self, data: Mapping[str, Any]) -> Iterator[ModelEvent]:
        for kind, body in data.items():
            if kind in ERRORS or kind.endswith("Exception") or kind in _READ:
                raise _failure(kind, body)
        match data:
            case {"SDK_UNKNOWN_MEMBER": {"name": kind}}:  # as botocore tells it
                yield from self._unknown.event(kind)
            case _:
                yield from self._unknown.event(" ".join(sorted(data)))

    def _note(self, usage: Any) -> None:
        self._usage = dict(usage) if isinstance(usage, Mapping) else {}

    def _stopped(self, reason: str) -> None:
        if reason in _BROKEN:
            raise ProtocolError(f"{_BROKEN[reason]} ({reason})")
        self._stop = reason

    def _whole(self, index: int, block: Any) -> Iterator[ModelEvent]:
        """A block of a reply that is not streamed, as the events it would have come in."""
        if not isinstance(block, dict):
            raise ProtocolError("a block of the reply is not an object")
        match block:
            case {"text": str(text)}:
                yield from self._delta(index, {"text": text})
            case {"toolUse": dict(use)} if use.get("type") != _SERVER_TOOL:
                yield from self._start(index, block)
            case {"reasoningContent": {"reasoningText": dict(thought)}}:
                for key in ("text", "signature"):
                    if key in thought:
                        yield from self._delta(index, {"reasoningContent": {key: thought[key]}})
            case {"reasoningContent": {"redactedContent": _} as redacted}:
                yield from self._delta(index, {"reasoningContent": redacted})
            case {"citationsContent": dict(content)}:
                yield from self._delta(index, {"text": text_of(content)})
                self._open[index].citations = list(content.get("citations") or ())
            case _:
                if block.keys().isdisjoint(_KNOWN_BLOCKS):
                    yield from self._unknown.block(" ".join(sorted(block)))
                self._layout.place(block, alone=True)
                yield from service_call_events(self._services, block)
                return
        yield from self._end(index)

    def _start(self, index: int, start: dict[str, Any]) -> Iterator[ModelEvent]:
        if not all(isinstance(start.get(kind, {}), dict) for kind in ("toolUse", "toolResult")):
            raise ProtocolError("a block of the reply begins with something that is not an object")
        opened = _OpenBlock(start)
        yield from self._open_block(index, opened)
        if opened.is_call:
            use = start["toolUse"]
            self._layout.called()
            yield from self._calls.delta(index=index, id=use.get("toolUseId"), name=use.get("name"))

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        if index not in self._open:  # only calls announce themselves
            yield from self._start(index, {})
        opened = self._open[index]
        match delta:
            case {"text": str(text)} if text:
                opened.text.append(text)
                self._layout.said(text)
                yield TextDelta(text=text)
            case {"citation": dict(citation)}:
                opened.citations.append(citation)
            case {"toolUse": {"input": written}} if written:
                if "toolUse" not in opened.start:
                    raise ProtocolError("a piece of a call that has not begun; nothing of it can be relied on")
                text = written if isinstance(written, str) else object_text(written)
                opened.input.append(text)
                if opened.is_call:
                    yield from self._calls.delta(index=index, arguments=text)
            case {"reasoningContent": {"text": str(text)}} if text:
                opened.thoughts.append(text)
                yield ReasoningDelta(text=text)
            case {"reasoningContent": {"signature": str(signature)}}:
                opened.signature = (opened.signature or "") + signature
            case {"reasoningContent": {"redactedContent": bytes(data)}}:
                opened.redacted += data
            case {"reasoningContent": {"redactedContent": str(text)}}:
                opened.redacted += _bytes(text)
            case {"toolResult": list(results)}:
                opened.results += results

    def _end(self, index: int) -> Iterator[ModelEvent]:
        opened = self._open.pop(index, None)
        if opened is None:
            return
        if opened.is_call:
            use = opened.start["toolUse"]
            in_pieces = bool(opened.input)
            yield from self._close_call(index, use.get("name"), in_pieces=in_pieces, whole=use.get("input"))
        elif opened.citations:
            yield from self._cited(opened)
        elif (block := _restored(opened)) is not None:
            self._layout.place(block, alone="reasoningContent" not in block)
            yield from service_call_events(self._services, block)

    def _cited(self, opened: _OpenBlock) -> Iterator[ModelEvent]:
        """A block of text that names its sources goes back as such."""
        text, end = "".join(opened.text), self._layout.chars
        content = {"content": [{"text": text}], "citations": opened.citations}
        self._layout.place({"citationsContent": content}, covers=len(text))
        yield from citations_added(opened.citations, end - len(text), end)


def _bytes(text: str) -> bytes:
    """Decodes base64; botocore does this itself, other readers of the stream do not."""
    try:
        return base64.b64decode(text)
    except ValueError as error:
        raise ProtocolError(f"a thought of the reply is not in base64: {error}") from error


def _restored(opened: _OpenBlock) -> dict[str, Any] | None:
    """A block that goes back exactly as it came; None for one that does not go back."""
    if opened.redacted:
        return {"reasoningContent": {"redactedContent": base64.b64encode(opened.redacted).decode()}}
    if opened.signature is not None:  # models that do not sign their thoughts do not want them back
        thought = {"text": "".join(opened.thoughts), "signature": opened.signature}
        return {"reasoningContent": {"reasoningText": thought}}
    match opened.start:
        case {"toolUse": use}:
            whole = service_input("".join(opened.input), "a tool of the service's own")
            return {"toolUse": {**use, "input": whole}}
        case {"toolResult": result}:
            return {"toolResult": {**result, "content": opened.results}}
    return None


def _failure(kind: str, body: Any) -> ModelError:
    if kind in _READ:
        return ProtocolError(f"an event of the kind {kind} that lacks what it is about")
    message = body.get("message", "no message") if isinstance(body, Mapping) else body
    return ERRORS.get(kind, ProtocolError)(f"Bedrock reports {kind}: {masked_excerpt(str(message), SHOWN)}")
