"""Streams as Converse writes them. Blobs are bytes here, and base64 on the wire."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]

USAGE = {
    "inputTokens": 20,
    "outputTokens": 30,
    "totalTokens": 160,
    "cacheReadInputTokens": 100,
    "cacheWriteInputTokens": 10,
}


def delta(index: int, **piece: Any) -> Event:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": piece}}


def ended(index: int) -> Event:
    return {"contentBlockStop": {"contentBlockIndex": index}}


def call(index: int, id: str, name: str, *pieces: str) -> list[Event]:
    begun = {"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": id, "name": name}}}
    return [{"contentBlockStart": begun}, *(delta(index, toolUse={"input": piece}) for piece in pieces), ended(index)]


def stop(reason: str) -> list[Event]:
    return [{"messageStop": {"stopReason": reason}}, {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 9}}}]


BEGIN: Event = {"messageStart": {"role": "assistant"}}
STREAM: list[Event] = [
    BEGIN,
    delta(0, reasoningContent={"text": "The user "}),
    delta(0, reasoningContent={"text": "wants weather."}),
    delta(0, reasoningContent={"signature": "c2ln"}),
    ended(0),
    delta(1, reasoningContent={"redactedContent": b"\x00\xff"}),
    ended(1),
    delta(2, text="Let me "),
    delta(2, text="look."),
    ended(2),
    *call(3, "tooluse_1", "get_weather", '{"loc', 'ation": "Lisbon"}'),
    *call(4, "tooluse_2", "clock"),
    *stop("tool_use"),
]
WHOLE: Event = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "The user wants weather.", "signature": "c2ln"}}},
                {"reasoningContent": {"redactedContent": b"\x00\xff"}},
                {"text": "Let me look."},
                {"toolUse": {"toolUseId": "tooluse_1", "name": "get_weather", "input": {"location": "Lisbon"}}},
                {"toolUse": {"toolUseId": "tooluse_2", "name": "clock", "input": {}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": USAGE,
    "metrics": {"latencyMs": 9},
}
