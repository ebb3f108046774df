"""Cohere's `/v2/chat`, from the side of the service. Its models plan before they call, and want their plan back."""

from __future__ import annotations

import json
from typing import Any

from tests.models.cohere import wire_types as sdk
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

PLAN = "I will use the tools that I have."
USAGE = {
    "billed_units": {"input_tokens": 3, "output_tokens": 2},
    "tokens": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
    "cached_tokens": 0,
}


def hear(asked: WireHttpRequest) -> UnderstoodRequest:
    assert asked.path == "/v2/chat", asked.path
    body, history = asked.body, CallHistory()
    assert sdk.accepts(body)
    for message in body["messages"]:
        match message:
            case {"role": "system" | "user", "content": str(text)}:
                history.said(text)
            case {"role": "assistant", "tool_calls": [*calls]}:
                if calls[0]["id"].startswith("co_"):
                    assert message.get("tool_plan") == PLAN, "the calls came back without their plan"
                history.replied(*map(_call, calls))
            case {"role": "assistant", "content": [*_]}:
                history.replied()
            case {"role": "tool", "tool_call_id": id, "content": [{"document": {"data": data}}]}:
                history.answered(_result(id, data))
            case _:
                raise AssertionError(f"no message of Cohere's: {message}")
    offers = [_offer(tool["function"]) for tool in body.get("tools", ())]
    choice = body.get("tool_choice", "AUTO").lower()
    return history.heard(streams=body["stream"], offers=offers, choice=choice)


def write(said: ScriptedReply, stream: bool) -> list[Event]:
    return _events(said) if stream else [_reply(said)]


def judge(event: Event, stream: bool) -> object:
    return sdk.read_event(event) if stream else sdk.read_reply(event)


def _offer(function: Any) -> OfferedTool:
    return OfferedTool(function["name"], function["description"], function["parameters"])


def _call(call: Any) -> WireCall:
    return WireCall(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))


def _result(id: str, data: Any) -> ReturnedResult:
    match data:
        case {"output": content, **more} if not more:
            return ReturnedResult(id, content, False)
        case {"error": content, **more} if not more:
            return ReturnedResult(id, content, True)
    return ReturnedResult(id, data, False)


def _finish(said: ScriptedReply) -> str:
    return "TOOL_CALL" if said.calls else "COMPLETE"


def _called(call: WireCall, arguments: str) -> Event:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _reply(said: ScriptedReply) -> Event:
    message: Event = {"role": "assistant"}
    if said.calls:
        message |= {"tool_plan": PLAN, "tool_calls": [_called(call, as_json(call.arguments)) for call in said.calls]}
    if said.text:
        message["content"] = [{"type": "text", "text": said.text}]
    return {"id": "r1", "message": message, "finish_reason": _finish(said), "usage": USAGE}


def _event(kind: str, index: int | None = None, **message: Any) -> Event:
    event: Event = {"type": kind} if index is None else {"type": kind, "index": index}
    return {**event, "delta": {"message": message}} if message else event


def _events(said: ScriptedReply) -> list[Event]:
    begins: dict[str, Any] = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    events: list[Event] = [{"id": "r1", **_event("message-start", **begins)}]
    if said.text:
        events.append(_event("content-start", 0, content={"type": "text", "text": ""}))
        events += [_event("content-delta", 0, content={"text": piece}) for piece in pieces(said.text)]
        events.append(_event("content-end", 0))
    if said.calls:
        events += [_event("tool-plan-delta", tool_plan=piece) for piece in pieces(PLAN)]
    for index, call in enumerate(said.calls):
        events.append(_event("tool-call-start", index, tool_calls=_called(call, "")))
        events += [
            _event("tool-call-delta", index, tool_calls={"function": {"arguments": piece}})
            for piece in pieces(as_json(call.arguments))
        ]
        events.append(_event("tool-call-end", index))
    return [*events, {"type": "message-end", "delta": {"finish_reason": _finish(said), "usage": USAGE}}]
