"""OpenAI's Responses, from the side of the service. A sealed thought goes before every call, and must come back."""

from __future__ import annotations

import json
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

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
    signature,
)

_STREAMED: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_USAGE = {
    "input_tokens": INPUT_TOKENS,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def hear(asked: WireHttpRequest) -> UnderstoodRequest:
    assert asked.path == "/responses", asked.path
    body, history = asked.body, CallHistory()
    assert body["store"] is False
    history.said(body.get("instructions", ""))
    thoughts: list[str] = []
    for item in body["input"]:
        match item:
            case {"role": "system" | "user", "content": content}:
                history.said(content if isinstance(content, str) else "".join(part["text"] for part in content))
            case {"type": "reasoning", "encrypted_content": sealed, "id": _, "summary": _}:
                thoughts.append(sealed)
            case {"type": "function_call", "call_id": id, "name": name, "arguments": str(arguments)}:
                history.called(WireCall(id, name, json.loads(arguments)))
                if id.startswith("call_0"):  # ours, not one that was in the history from the beginning
                    assert thoughts.pop() == signature(id), f"the call {id} came back without its thought"
            case {"type": "function_call_output", "call_id": id, "output": output}:
                history.answered(ReturnedResult(id, output))
            case {"role": "assistant"}:
                history.replied()
            case {"type": "web_search_call", "id": _, "action": _}:
                pass  # the service ran it, and reads it again
            case _:
                raise AssertionError(f"no input of Responses: {item}")
    assert not thoughts, "a thought came back without its call"
    offers = [_offer(tool) for tool in body.get("tools", ())]
    return history.heard(streams=body.get("stream", False), offers=offers, choice=_choice(body.get("tool_choice")))


def write(said: ScriptedReply, stream: bool) -> list[Event]:
    return _events(said) if stream else [_response(_items(said), "completed")]


def judge(event: Event, stream: bool) -> object:
    return _STREAMED.validate_python(event) if stream else Response.model_validate(event)


def _offer(tool: Any) -> OfferedTool:
    assert tool["type"] == "function"
    return OfferedTool(tool["name"], tool["description"], tool["parameters"], tool["strict"])


def _choice(choice: Any) -> str:
    match choice:
        case None:
            return "auto"
        case "auto" | "none" | "required":
            return str(choice)
        case {"type": "function", "name": name}:
            return f"={name}"
    raise AssertionError(f"no tool_choice: {choice}")


def _items(said: ScriptedReply) -> list[Event]:
    items: list[Event] = []
    if said.text:
        part = {"type": "output_text", "text": said.text, "annotations": []}
        items.append({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]})
    for call in said.calls:
        items.append(
            {"id": f"rs_{call.id}", "type": "reasoning", "summary": [], "encrypted_content": signature(call.id)}
        )
        items.append(
            {
                "id": f"fc_{call.id}",
                "type": "function_call",
                "status": "completed",
                "call_id": call.id,
                "name": call.name,
                "arguments": as_json(call.arguments),
            }
        )
    return items


def _response(output: list[Event], status: str) -> Event:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "said-so",
        "status": status,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": _USAGE if status == "completed" else None,
    }


def _events(said: ScriptedReply) -> list[Event]:
    items = _items(said)
    events: list[Event] = [{"type": "response.created", "response": _response([], "in_progress")}]
    for index, item in enumerate(items):
        events += [{**event, "output_index": index} for event in _item_events(item)]
    events.append({"type": "response.completed", "response": _response(items, "completed")})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _item_events(item: Event) -> list[Event]:
    id, begun, inside = item["id"], {**item}, list[Event]()
    match item:
        case {"type": "message", "content": [{"text": text}]}:
            begun |= {"content": [], "status": "in_progress"}
            place: Event = {"item_id": id, "content_index": 0, "logprobs": []}
            inside = [{"type": "response.output_text.delta", **place, "delta": piece} for piece in pieces(text)]
            inside.append({"type": "response.output_text.done", **place, "text": text})
        case {"type": "function_call", "arguments": arguments, "name": name}:
            begun |= {"arguments": "", "status": "in_progress"}
            kind = "response.function_call_arguments"
            inside = [{"type": f"{kind}.delta", "item_id": id, "delta": piece} for piece in pieces(arguments)]
            inside.append({"type": f"{kind}.done", "item_id": id, "arguments": arguments, "name": name})
    added = {"type": "response.output_item.added", "item": begun}
    return [added, *inside, {"type": "response.output_item.done", "item": item}]
