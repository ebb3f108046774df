"""Streams as the Responses service writes them."""

from __future__ import annotations

from typing import Any

REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_a",
    "name": "get_weather",
    "arguments": '{"city":"Lisbon"}',
}
PLOT = {**CALL, "id": "fc_2", "call_id": "call_b", "name": "io_plot", "arguments": '{"points":[1,2]}'}


def message(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content, **more}


def refusal(text: str) -> dict[str, Any]:
    return message("") | {"content": [{"type": "refusal", "refusal": text}]}


def response(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5-mini-2025-08-07",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage if status != "in_progress" else None,
        **more,
    }


def stream(*output: dict[str, Any], status: str = "completed", **more: Any) -> list[dict[str, Any]]:
    """The events in which a service brings these items."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": response(status="in_progress")}]
    for index, item in enumerate(output):
        events += _events(item, {"output_index": index, "item_id": item["id"]})
    events.append({"type": f"response.{status}", "response": response(*output, status=status, **more)})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _events(item: dict[str, Any], at: dict[str, Any]) -> list[dict[str, Any]]:
    added: dict[str, Any] = {"type": "response.output_item.added", "output_index": at["output_index"]}
    done = {**added, "type": "response.output_item.done", "item": item}
    match item:
        case {"type": "function_call", "arguments": str(arguments)}:
            begun = {**item, "arguments": "", "status": "in_progress"}
            kind = "response.function_call_arguments"
            pieces = [{"type": f"{kind}.delta", "delta": piece, **at} for piece in _cut(arguments)]
            ended = {"type": f"{kind}.done", "arguments": arguments, "name": item["name"], **at}
            return [{**added, "item": begun}, *pieces, ended, done]
        case {"type": "message", "content": [part]}:
            begun = {**item, "content": [], "status": "in_progress"}
            return [{**added, "item": begun}, *_part_events(part, {**at, "content_index": 0}), done]
    return [{**added, "item": item}, done]


def _part_events(part: dict[str, Any], at: dict[str, Any]) -> list[dict[str, Any]]:
    key = "refusal" if part["type"] == "refusal" else "text"
    kind = "response.refusal" if key == "refusal" else "response.output_text"
    added = {"type": "response.content_part.added", "part": {**part, key: ""}, **at}
    more: dict[str, Any] = {} if key == "refusal" else {"logprobs": []}
    pieces = [{"type": f"{kind}.delta", "delta": piece, **more, **at} for piece in _cut(part[key])]
    ended = {"type": f"{kind}.done", key: part[key], **more, **at}
    return [added, *pieces, ended, {**added, "type": "response.content_part.done", "part": part}]


def _cut(text: str) -> list[str]:
    return [text[at : at + 5] for at in range(0, len(text), 5)]


OUTPUTS: dict[str, tuple[dict[str, Any], ...]] = {
    "text": (message("Hello world"),),
    "thought, then a call": (REASONING, CALL),
    "text and two calls": (message("Let me see."), CALL, PLOT),
    "no arguments": ({**CALL, "arguments": ""},),
    "refusal": (refusal("I cannot do that."),),
}
