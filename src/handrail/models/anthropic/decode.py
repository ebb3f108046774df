"""The Messages API's replies as events, streamed or whole.

A block is known by its index. Text and thoughts are given on as they come; a call
when its block ends, unless it might have been cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused
from handrail.core.events import ModelEvent, Notice, ReasoningDelta
from handrail.core.ids import NewId
from handrail.core.messages import Artefact, StopReason, Usage
from handrail.models.anthropic.citations import citations_added
from handrail.models.anthropic.programs import CONTAINER
from handrail.models.anthropic.service_calls import service_call_events
from handrail.models.anthropic.tools import PROVIDER
from handrail.models.block_decoder import BlockDecoder, object_text, service_input
from handrail.models.service_errors import SHOWN, masked_excerpt
from handrail.models.shared_decoding import text_at, token_count_of
from handrail.models.tool_names import NameMap

_STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "pause_turn": "end",
    "tool_use": "tool_calls",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
}
_WORDS = {
    "pause_turn": "the service paused a long turn; send the conversation again to go on",
    "model_context_window_exceeded": "the reply filled the model's context window",
}
_READ = frozenset(
    {"content_block_delta", "content_block_start", "content_block_stop", "message_start", "message_delta", "message"}
)
"""Kinds of events that mean something; one of them that cannot be read is not passed over."""
_SILENT = frozenset({"ping", "message_stop"})
_DELTAS = frozenset({"text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"})
"""Kinds of pieces that are known; one that says nothing is passed over."""
_BLOCKS = frozenset(
    {
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "mcp_tool_use",
        "mcp_tool_result",
        "container_upload",
        "compaction",
        "fallback",
    }
)
"""Kinds of blocks beside text and calls, which are kept as they came; so are those that end in `_tool_result`."""
_THOUGHTS = ("thinking", "redacted_thinking")
_ERRORS: dict[str, type[ModelError]] = {
    "rate_limit_error": RateLimited,
    "overloaded_error": ModelUnavailable,
    "api_error": ModelUnavailable,
    "timeout_error": ModelUnavailable,
    "authentication_error": RequestRefused,
    "billing_error": RequestRefused,
    "invalid_request_error": RequestRefused,
    "not_found_error": RequestRefused,
    "permission_error": RequestRefused,
    "request_too_large": RequestRefused,
}


class _OpenBlock:
    """A block that has begun."""

    def __init__(self, block: dict[str, Any]) -> None:
        self.block = block
        self.kind = str(block.get("type", ""))
        self.citations: list[Any] = []
        self.start = 0
        """Characters of the reply's text before it."""
        self.pieces: list[str] = []
        self.signature: str | None = None


class AnthropicDecoder(BlockDecoder[_OpenBlock]):
    provider = PROVIDER

    def __init__(self, names: NameMap, new_id: NewId) -> None:
        super().__init__(names, new_id)
        self._why = ""
        self._message: str | None = None
        """The id of the message that is being read."""
        self._begun = False
        """True once a block of this message has begun."""
        self._container: dict[str, Any] | None = None
        self._written: tuple[int, _OpenBlock] | None = None
        """The block that a piece of arguments was last of; None if the last piece was one of text."""

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        match data:
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                yield from self._delta(self._block(index), index, delta)
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                yield from self._start(index, block)
            case {"type": "content_block_stop", "index": int(index)}:
                yield from self._end(index)
            case {"type": "message_start", "message": dict(message)}:
                self._begin(message)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._note({**delta, "usage": data.get("usage")})
            case {"type": "message", "content": list(blocks)}:
                self._note(data)
                for index, block in enumerate(blocks):
                    if not isinstance(block, dict):
                        raise ProtocolError("a block of the reply is not an object")
                    yield from self._start(index, block)
                    yield from self._end(index)
            case {"error": dict() | str() as error}:
                raise _failure({"message": error} if isinstance(error, str) else error)
            case {"type": str(kind)} if kind in _READ:
                raise ProtocolError(f"an event of the kind {kind} that lacks what it is about")
            case {"type": str(kind)}:
                if kind not in _SILENT:
                    yield from self._unknown.event(kind)
            case _:
                raise ProtocolError(
                    f"not an event of Anthropic's: an object with the keys {masked_excerpt(str(sorted(data)))}"
                )

    def piece_of(self, data: Mapping[str, Any]) -> str | None:
        match data:
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}}:
                return text
            case {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": str(text)}} if (
                text
            ):
                return text
        return None

    def more(self, texts: Sequence[str]) -> Iterable[ModelEvent]:
        if self._written is None:
            return [event for text in texts for event in self._emit_text(text)]
        index, opened = self._written
        texts = [text for text in texts if text]
        opened.pieces += texts
        return self._calls.more(texts, index=index) if opened.kind == "tool_use" else ()

    def finish(self) -> Iterator[ModelEvent]:
        stop = self._stop_reason(_STOPS, "stop reason")
        if self._open:
            raise ProtocolError("the reply ended inside a block; nothing of it can be relied on")
        yield from self._release_held(cut=stop == "max_tokens")
        yield from self._services.unanswered()
        if self._container is not None:
            self._layout.place({**self._container, "type": CONTAINER})
        if self._stop in _WORDS or self._stop not in _STOPS or self._why:
            yield Notice(text=self._why or _WORDS.get(str(self._stop), f"unknown stop reason {self._stop!r}"))
        yield self._finished(stop, _usage(self._usage))

    def _begin(self, message: Mapping[str, Any]) -> None:
        """A message begins. Some servers say so twice; but two messages in one stream are not one reply."""
        id = text_at(message, "id")
        if self._begun and id != self._message:
            raise ProtocolError("another message begins inside of the reply; nothing of it can be relied on")
        self._message = id
        self._note(message)

    def _note(self, message: Mapping[str, Any]) -> None:
        self._model = text_at(message, "model") or self._model
        self._stop = text_at(message, "stop_reason") or self._stop
        self._why = text_at(message.get("stop_details"), "explanation") or self._why
        if isinstance(container := message.get("container"), dict) and isinstance(container.get("id"), str):
            self._container = container
        if isinstance(usage := message.get("usage"), Mapping):  # totals so far; one that is left out still holds
            self._usage |= {key: value for key, value in usage.items() if value is not None}

    def _block(self, index: int) -> _OpenBlock:
        if index not in self._open:
            raise ProtocolError(f"a piece of block {index}, which has not begun")
        return self._open[index]

    def _start(self, index: int, block: dict[str, Any]) -> Iterator[ModelEvent]:
        opened = _OpenBlock(block)
        yield from self._open_block(index, opened)
        self._begun = True
        match block:
            case {"type": "text", "text": str(text)}:
                opened.start = self._layout.chars
                opened.citations += block.get("citations") or ()
                yield from self._emit_text(text)
            case {"type": "thinking", "thinking": str(text)}:
                yield from _thought(opened, text)
            case {"type": "tool_use"}:
                self._layout.called()
                caller = block.get("caller")
                by_program = isinstance(caller, dict) and caller.get("type") != "direct"
                found = (Artefact(PROVIDER, {"caller": caller}),) if by_program else ()
                yield from self._calls.delta(index=index, id=block.get("id"), name=block.get("name"), artefacts=found)

    def _delta(self, opened: _OpenBlock, index: int, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                self._written = None
                yield from self._emit_text(text)
            case {"type": "thinking_delta", "thinking": str(text)}:
                yield from _thought(opened, text)
            case {"type": "signature_delta", "signature": str(signature)}:
                opened.signature = signature
            case {"type": "input_json_delta", "partial_json": written} if written:
                text = written if isinstance(written, str) else object_text(written)
                opened.pieces.append(text)
                self._written = index, opened
                if opened.kind == "tool_use":
                    yield from self._calls.delta(index=index, arguments=text)
            case {"type": "citations_delta", "citation": dict(citation)}:
                opened.citations.append(citation)
            case {"type": "compaction_delta", **rest}:
                opened.block = {**opened.block, **rest}
            case {"type": str(kind)} if kind not in _DELTAS:
                yield from self._unknown.piece(kind)

    def _end(self, index: int) -> Iterator[ModelEvent]:
        opened = self._block(index)
        del self._open[index]
        match opened.kind:
            case "text":
                if opened.citations:
                    yield from self._cited(opened)
            case "tool_use":
                name, whole = opened.block.get("name"), opened.block.get("input")
                yield from self._close_call(index, name, in_pieces=bool(opened.pieces), whole=whole)
            case kind:
                if kind not in _BLOCKS and not kind.endswith("_tool_result"):
                    yield from self._unknown.block(kind)
                block = _restored(opened)
                self._layout.place(block, alone=kind not in _THOUGHTS)
                yield from service_call_events(self._services, block)

    def _cited(self, opened: _OpenBlock) -> Iterator[ModelEvent]:
        """A block of text that names its sources goes back as a block of its own."""
        end = self._layout.chars
        self._layout.place({"type": "text", "citations": opened.citations}, covers=end - opened.start)
        yield from citations_added(opened.citations, opened.start, end)


def _thought(opened: _OpenBlock, text: str) -> Iterator[ModelEvent]:
    if text:
        opened.pieces.append(text)
        yield ReasoningDelta(text=text)


def _restored(opened: _OpenBlock) -> dict[str, Any]:
    """A block as it would have come in one piece."""
    text = "".join(opened.pieces)
    if opened.kind == "thinking":
        signature = opened.block.get("signature", "") if opened.signature is None else opened.signature
        return {**opened.block, "thinking": text, "signature": signature}
    return {**opened.block, "input": service_input(text, f"a {opened.kind} block")} if text else opened.block


def _usage(counts: Mapping[str, Any]) -> Usage:
    """This service counts what it read from its cache, and wrote to it, beside the input."""
    rounds = [counts, *_compactions(counts.get("iterations"))]
    read, written = _sum(rounds, "cache_read_input_tokens"), _sum(rounds, "cache_creation_input_tokens")
    return Usage(
        input_tokens=_sum(rounds, "input_tokens") + read + written,
        output_tokens=_sum(rounds, "output_tokens"),
        cached_tokens=read,
        cache_written_tokens=written,
        reasoning_tokens=token_count_of(counts.get("output_tokens_details"), "thinking_tokens"),
    )


def _compactions(rounds: Any) -> list[Mapping[str, Any]]:
    """Rounds in which the service shortened the conversation; it counts them beside the reply."""
    found = rounds if isinstance(rounds, list) else ()
    return [each for each in found if isinstance(each, Mapping) and each.get("type") == "compaction"]


def _sum(rounds: Sequence[Mapping[str, Any]], key: str) -> int:
    return sum(token_count_of(counts, key) for counts in rounds)


def _failure(error: Mapping[str, Any]) -> ModelError:
    kind, message = str(error.get("type", "error")), error.get("message", "no message")
    return _ERRORS.get(kind, ProtocolError)(masked_excerpt(f"Anthropic reports {kind}: {message}", SHOWN))
