"""OpenAI's Chat Completions, from the side of the service."""

from __future__ import annotations

import json
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.wires.wire_dialogue import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    CallHistory,
    Event,
    OfferedTool,
    ReturnedResult,
    ScriptedReply,
    UnderstoodRequest,
    WireCall,
    WireHttpRequest,
    as_json,
    pieces,
)

USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def hear(asked: WireHttpRequest) -> UnderstoodRequest:
    assert asked.path == "/chat/completions", asked.path
    return _heard(asked)


def hear_on_azure(asked: WireHttpRequest) -> UnderstoodRequest:
    """The v1 address, with a key."""
    assert asked.path == "/chat/completions", asked.path
    assert "api-key" in asked.headers
    assert "authorization" not in asked.headers
    return _heard(asked)


def hear_deployment(asked: WireHttpRequest) -> UnderstoodRequest:
    """Azure's older address, which names a deployment and a date, with a token."""
    assert asked.path == "/chat/completions?api-version=2024-10-21", asked.path
    assert asked.headers["authorization"].startswith("Bearer ")
    assert "api-key" not in asked.headers
    return _heard(asked)


def _heard(asked: WireHttpRequest) -> UnderstoodRequest:
    body, history = asked.body, CallHistory()
    for message in body["messages"]:
        match message:
            case {"role": "system" | "user", "content": content}:
                history.said(_text(content))
            case {"role": "assistant", "tool_calls": [*calls]}:
                history.replied(*map(_call, calls))
            case {"role": "assistant", "content": str()}:
                history.replied()
            case {"role": "tool", "tool_call_id": id, "content": content}:
                history.answered(ReturnedResult(id, _text(content)))
            case _:
                raise AssertionError(f"no message of Chat Completions: {message}")
    offers = [_offer(tool) for tool in body.get("tools", ())]
    assert offers or "tool_choice" not in body, "a choice without tools is refused"
    return history.heard(streams=body.get("stream", False), offers=offers, choice=_choice(body.get("tool_choice")))


def write(said: ScriptedReply, stream: bool) -> list[Event]:
    return _chunks(said) if stream else [_completion(said)]


def write_on_azure(said: ScriptedReply, stream: bool) -> list[Event]:
    """The same, with what Azure adds: its filters, first of all in an event without choices."""
    safe = {"hate": {"filtered": False, "severity": "safe"}, "jailbreak": {"filtered": False, "detected": False}}
    events = write(said, stream)
    for event in events:
        for choice in event["choices"]:
            choice["content_filter_results"] = safe
    about = {"id": "", "object": "", "created": 0, "model": "", "choices": []}
    first = {**about, "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": safe}]}
    return [first, *events] if stream else events


def judge_azure(event: Event, stream: bool) -> object:
    """The package's own types forbid what Azure writes into its first event; its client does not look."""
    return event if event.get("object") == "" else judge(event, stream)


def judge(event: Event, stream: bool) -> object:
    return (ChatCompletionChunk if stream else ChatCompletion).model_validate(event)


def _offer(tool: Any) -> OfferedTool:
    assert tool["type"] == "function"
    function = tool["function"]
    return OfferedTool(function["name"], function["description"], function["parameters"], function.get("strict", False))


def _choice(choice: Any) -> str:
    match choice:
        case None:
            return "auto"
        case "auto" | "none" | "required":
            return str(choice)
        case {"type": "function", "function": {"name": name}}:
            return f"={name}"
    raise AssertionError(f"no tool_choice: {choice}")


def _call(call: Any) -> WireCall:
    assert call["type"] == "function"
    return WireCall(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    assert all(part["type"] == "text" for part in content), content
    return "".join(part["text"] for part in content)


def _finish(said: ScriptedReply) -> str:
    return "tool_calls" if said.calls else "stop"


def _completion(said: ScriptedReply) -> Event:
    message: Event = {"role": "assistant", "content": said.text or None, "refusal": None}
    if said.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": as_json(call.arguments)}}
            for call in said.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish(said), "logprobs": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "said-so",
        "choices": [choice],
        "usage": USAGE,
    }


def _chunk(delta: Event | None, finish: str | None = None) -> Event:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "said-so"}
    return {**about, "choices": choices, **({"usage": USAGE} if delta is None else {"usage": None})}


def _chunks(said: ScriptedReply) -> list[Event]:
    chunks = [_chunk({"role": "assistant", "content": "" if said.text else None})]
    chunks += [_chunk({"content": piece}) for piece in pieces(said.text)]
    for index, call in enumerate(said.calls):
        opened = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        chunks.append(_chunk({"tool_calls": [opened]}))
        chunks += [
            _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in pieces(as_json(call.arguments))
        ]
    return [*chunks, _chunk({}, _finish(said)), _chunk(None)]
