"""Answers as Chat Completions: chunks of a stream, or one document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from handrail.core.calls import ToolCall
from handrail.core.messages import Citation, StopReason, Usage
from handrail.models.history import arguments_text
from handrail.node.gateways.failures import GatewayFailure
from handrail.node.gateways.request import GatewayOutcome, GatewayRequest
from handrail.node.gateways.wire import AnswerWriter, encode, text_frame

REASONS: dict[StopReason, str] = {
    "end": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
DONE = b"data: [DONE]\n\n"


class ChatWriter(AnswerWriter):
    def __init__(self, id: str, created: int, model: str, asked: GatewayRequest) -> None:
        self._head: dict[str, Any] = {"id": id, "created": created, "model": model}
        self._usage = asked.usage
        self._text = text_frame(self._chunk({"content": 0}), b"content")

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def text(self, piece: str) -> bytes:
        return self._text(piece)

    def finish(self, ended: GatewayOutcome) -> bytes:
        frames: list[bytes] = []
        if sources := _page_annotations(ended.citations):
            frames.append(self._chunk({"annotations": sources}))
        for index, call in enumerate(ended.calls):
            written = _call(call)
            arguments = written["function"].pop("arguments")
            written["function"]["arguments"] = ""
            frames.append(self._chunk({"tool_calls": [{"index": index, **written}]}))
            if arguments:
                frames.append(self._chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
        frames.append(self._chunk({}, REASONS[ended.stop], ended.extension))
        if self._usage:
            frames.append(self._frame([], {"usage": chat_usage_of(ended.usage)}))
        return b"".join((*frames, DONE))

    def whole(self, ended: GatewayOutcome) -> dict[str, Any]:
        text = ended.text if ended.text or not ended.calls else None
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if sources := _page_annotations(ended.citations):
            message["annotations"] = sources
        if ended.calls:
            message["tool_calls"] = list(map(_call, ended.calls))
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": REASONS[ended.stop]}
        usage = chat_usage_of(ended.usage)
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage, **ended.extension}

    def broken(self, failure: GatewayFailure, run: str) -> bytes:
        return b"data: " + encode(openai_error_body(failure, run)) + b"\n\n" + DONE

    def _chunk(self, delta: dict[str, Any], reason: str | None = None, more: dict[str, Any] | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return self._frame([choice], {**({"usage": None} if self._usage else {}), **(more or {})})

    def _frame(self, choices: list[dict[str, Any]], more: dict[str, Any]) -> bytes:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices, **more}
        return b"data: " + encode(chunk) + b"\n\n"


def openai_error_body(failure: GatewayFailure, id: str) -> dict[str, Any]:
    kind = _TYPES.get(failure.status) or ("server_error" if failure.status >= 500 else "invalid_request_error")
    error = {"message": failure.message, "type": kind, "param": failure.param, "code": failure.code}
    return {"error": error}


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_text(call)}
    return {"id": call.id, "type": "function", "function": function}


def chat_usage_of(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _page_annotations(citations: Iterable[Citation]) -> list[dict[str, Any]]:
    """Sources as a Chat message has them: pages only."""
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "url": each.url,
                "title": each.title,
                "start_index": each.start or 0,
                "end_index": each.end or 0,
            },
        }
        for each in citations
        if each.url
    ]
