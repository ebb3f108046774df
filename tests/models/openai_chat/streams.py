"""Streams as servers write them."""

from __future__ import annotations

from typing import Any

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4.1-2025-04-14"}


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    return {**HEAD, "choices": choices, "usage": None, **more}


def call(index: int | None, id: str | None = None, name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    made = {"index": index, "id": id, "type": "function" if id else None, "function": function}
    return {"tool_calls": [{key: value for key, value in made.items() if value is not None}]}


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 5},
}

TEXT = [
    chunk({"role": "assistant", "content": "", "refusal": None}, obfuscation="x"),
    chunk({"content": "Hello"}),
    chunk({"content": " world"}),
    chunk({}, "stop"),
    chunk(usage=USAGE),
]
ONE_CALL = [
    chunk({"role": "assistant", "content": None, **call(0, "call_a", "get_weather", "")}),
    chunk(call(0, arguments='{"ci')),
    chunk(call(0, arguments='ty":"Lisbon"}')),
    chunk({}, "tool_calls"),
    chunk(usage=USAGE),
]
TWO_CALLS = [
    chunk({"role": "assistant", "content": "Let me see."}),
    chunk(call(0, "call_a", "get_weather", "")),
    chunk(call(0, arguments='{"city":"Lisbon"}')),
    chunk(call(1, "call_b", "io_plot", "")),
    chunk(call(1, arguments='{"points":[1,')),
    chunk(call(1, arguments="2]}")),
    chunk({}, "tool_calls"),
    chunk(usage=USAGE),
]
INTERLEAVED = [
    chunk({"role": "assistant", **call(0, "call_a", "get_weather", "")}),
    chunk(call(1, "call_b", "io_plot", "")),
    chunk(call(0, arguments='{"city":')),
    chunk(call(1, arguments='{"points":')),
    chunk(call(0, arguments='"Oslo"}')),
    chunk(call(1, arguments="[]}")),
    chunk({}, "tool_calls"),
]
REFUSAL = [
    chunk({"role": "assistant", "content": None, "refusal": ""}),
    chunk({"refusal": "I cannot"}),
    chunk({"refusal": " do that."}),
    chunk({}, "stop"),
]
STREAMS = {
    "text": TEXT,
    "one call": ONE_CALL,
    "two calls": TWO_CALLS,
    "interleaved": INTERLEAVED,
    "refusal": REFUSAL,
}
