"""Answers as Messages: events of a stream in the order that clients hold it to, or one document."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from handrail.core.calls import ToolCall
from handrail.core.messages import Citation, StopReason, Usage
from handrail.models.history import arguments_of
from handrail.node.gateways.failures import GatewayFailure
from handrail.node.gateways.request import GatewayOutcome, GatewayRequest
from handrail.node.gateways.wire import AnswerWriter, encode, text_frame

_REASONS: dict[StopReason, str] = {
    "end": "end_turn",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_use",
    "max_tokens": "max_tokens",
    "content_filter": "refusal",
    "refusal": "refusal",
}
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _event(name: str, **fields: Any) -> bytes:
    """One event of the stream; its name stands in the data too."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode({"type": name, **fields}))


PING = _event("ping")


class MessagesWriter(AnswerWriter):
    def __init__(self, id: str, created: int, model: str, asked: GatewayRequest) -> None:
        self._head: dict[str, Any] = {"id": id, "type": "message", "role": "assistant", "model": model}
        self._stops = asked.settings.stop
        self._open = False
        """Whether the block of text has begun."""
        delta = {"type": "text_delta", "text": 0}
        self._delta = text_frame(_event("content_block_delta", index=0, delta=delta), b"text")

    def begin(self) -> bytes:
        message = {**self._head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": _usage(Usage())}
        return _event("message_start", message=message) + PING

    def text(self, piece: str) -> bytes:
        delta = self._delta(piece)
        if self._open:
            return delta
        self._open = True
        return _event("content_block_start", index=0, content_block={"type": "text", "text": ""}) + delta

    def finish(self, ended: GatewayOutcome) -> bytes:
        frames: list[bytes] = []
        if self._open:
            # The text has gone out as one block, so its sources are those of all of it.
            for each in ended.citations:
                delta = {"type": "citations_delta", "citation": _source(each)}
                frames.append(_event("content_block_delta", index=0, delta=delta))
            frames.append(_event("content_block_stop", index=0))
        for index, call in enumerate(ended.calls, start=int(self._open)):
            block = _use(call)
            written = encode(block.pop("input")).decode()
            frames += [
                _event("content_block_start", index=index, content_block={**block, "input": {}}),
                _event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": written}),
                _event("content_block_stop", index=index),
            ]
        frames.append(_event("message_delta", delta=self._stop(ended), usage=_usage(ended.usage), **ended.extension))
        frames.append(_event("message_stop"))
        return b"".join(frames)

    def whole(self, ended: GatewayOutcome) -> dict[str, Any]:
        return {
            **self._head,
            "content": [*cited_text_blocks(ended.text, ended.citations), *map(_use, ended.calls)],
            **self._stop(ended),
            "usage": _usage(ended.usage),
            **ended.extension,
        }

    def broken(self, failure: GatewayFailure, run: str) -> bytes:
        return b"event: error\ndata: " + encode(messages_error_body(failure, run)) + b"\n\n"

    def _stop(self, ended: GatewayOutcome) -> dict[str, Any]:
        # Which of several it was is not known here.
        at = self._stops[0] if ended.stop == "stop_sequence" and len(self._stops) == 1 else None
        return {"stop_reason": _REASONS[ended.stop], "stop_sequence": at}


def messages_error_body(failure: GatewayFailure, id: str) -> dict[str, Any]:
    kind = _TYPES.get(failure.status) or ("api_error" if failure.status >= 500 else "invalid_request_error")
    details = {} if failure.api_details is None else {"details": failure.api_details}
    return {"type": "error", "error": {"type": kind, "message": failure.message, **details}, "request_id": id}


def _use(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_of(call)}


def _usage(usage: Usage) -> dict[str, Any]:
    """This API counts what was read from a cache, and written to it, beside the input."""
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_written_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_written_tokens,
    }


def cited_text_blocks(text: str, citations: Iterable[Citation]) -> list[dict[str, Any]]:
    """The text as blocks of a Messages answer: a block for each part that has sources. Ranges that overlap are one."""
    blocks: list[dict[str, Any]] = []
    said = 0
    placed = sorted((each for each in citations if each.start is not None), key=_range)
    for (start, end), group in groupby(placed, key=_range):
        sources = list(map(_source, group))
        if said < start < end and text[said:start]:
            blocks.append({"type": "text", "text": text[said:start]})
            said = start
        if words := text[said:end]:  # a place, without a range, is about the words before it
            blocks.append({"type": "text", "text": words, "citations": sources})
            said = end
        elif blocks:
            blocks[-1].setdefault("citations", []).extend(sources)
    if text[said:]:
        blocks.append({"type": "text", "text": text[said:]})
    return blocks


def _source(citation: Citation) -> dict[str, Any]:
    """The form of a source in which nothing is sealed by Anthropic."""
    return {
        "type": "search_result_location",
        "source": citation.url or citation.file or citation.title,
        "title": citation.title or None,
        "cited_text": citation.quote,
        "search_result_index": 0,
        "start_block_index": 0,
        "end_block_index": 0,
    }


def _range(citation: Citation) -> tuple[int, int]:
    """The start and end of a citation; a place without an end is an empty range. A service may send anything."""
    start = max(citation.start or 0, 0)
    return start, start if citation.end is None else max(citation.end, start)
