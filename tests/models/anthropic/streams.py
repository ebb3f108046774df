"""Streams as api.anthropic.com writes them."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]


def start() -> Event:
    usage = {
        "input_tokens": 25,
        "output_tokens": 1,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 10,
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "usage": usage,
    }
    return {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}}


def stop(reason: str = "end_turn", **usage: Any) -> list[Event]:
    delta = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}}
    return [{**delta, "usage": {"output_tokens": 42, **usage}}, {"type": "message_stop"}]


def block(index: int, first: Event, *deltas: Event) -> list[Event]:
    return [
        {"type": "content_block_start", "index": index, "content_block": first},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *pieces: str) -> list[Event]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas)


def thought(index: int, signature: str, *pieces: str) -> list[Event]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    signed = {"type": "signature_delta", "signature": signature}
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, signed)


def call(index: int, id: str, name: str, *pieces: str) -> list[Event]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, {"type": "tool_use", "id": id, "name": name, "input": {}}, *deltas)


FULL: list[Event] = [
    start(),
    *thought(0, "c2ln", "The user ", "wants weather."),
    *block(1, {"type": "redacted_thinking", "data": "ZW5j"}),
    {"type": "ping"},
    *text(2, "I'll look ", "that up."),
    *call(3, "toolu_1", "get_weather", "", '{"loc', 'ation": "Lis', 'bon"}'),
    *thought(4, "c2lnMg==", "And the time."),
    *call(5, "toolu_2", "clock", ""),
    *stop("tool_use", output_tokens_details={"thinking_tokens": 9}),
]
