"""The bytes that the mock service sends, made before they are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bench.turns.work import ANSWER, MODEL, PIECE, Job, calls_of

_USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: {}\r\n{}\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that are written at once."""

    data: bytes
    ends_call: bool = False
    """Whether the last argument byte of a call is in it."""


class Script:
    """Every reply of one job, whole and streamed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.before = job.history // 4
        """Results that the history has from the beginning."""

    def turn(self, results: int) -> int:
        return (results - self.before) // self.job.calls

    @cached_property
    def whole(self) -> list[bytes]:
        return [_whole(_message(self.job, turn)) for turn in range(self.job.turns + 1)]

    @cached_property
    def pieces(self) -> list[list[Piece]]:
        return [list(_streamed(self.job, turn)) for turn in range(self.job.turns + 1)]

    @cached_property
    def streamed(self) -> list[bytes]:
        return [b"".join(piece.data for piece in pieces) for pieces in self.pieces]


def plain(body: bytes) -> bytes:
    return _HEAD.format("application/json", f"content-length: {len(body)}").encode() + body


def _message(job: Job, turn: int) -> dict[str, Any]:
    if turn == job.turns:
        return {"role": "assistant", "content": ANSWER}
    return {"role": "assistant", "content": None, "tool_calls": calls_of(job, turn)}


def _whole(message: dict[str, Any]) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": _finish(message)}
    reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}
    return plain(json.dumps(reply | {"usage": _USAGE}).encode())


def _streamed(job: Job, turn: int) -> Iterator[Piece]:
    message = _message(job, turn)
    head = _HEAD.format("text/event-stream", "transfer-encoding: chunked").encode()
    yield Piece(head + _event({"role": "assistant", "content": None}))
    for index, call in enumerate(message.get("tool_calls", ())):
        yield from _call(index, call)
    for word in (message["content"] or "").split(" "):
        if word:
            yield Piece(_event({"content": f"{word} "} if not ANSWER.endswith(word) else {"content": word}))
    yield Piece(_event({}, _finish(message)))
    yield Piece(_chunk(_frame({"choices": [], "usage": _USAGE})) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


def _call(index: int, call: dict[str, Any]) -> Iterator[Piece]:
    function = call["function"]
    begun = call | {"index": index, "function": function | {"arguments": ""}}
    yield Piece(_event({"tool_calls": [begun]}))
    text = function["arguments"]
    for start in range(0, len(text), PIECE):
        delta = {"index": index, "function": {"arguments": text[start : start + PIECE]}}
        yield Piece(_event({"tool_calls": [delta]}), ends_call=start + PIECE >= len(text))


def _finish(message: dict[str, Any]) -> str:
    return "tool_calls" if "tool_calls" in message else "stop"


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return _chunk(_frame({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))


def _frame(rest: dict[str, Any]) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    return b"data: " + json.dumps(head | rest).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
