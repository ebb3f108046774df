"""Ollama's `/api/chat`, from the side of the server. It gives no ids, as older ones do not."""

from __future__ import annotations

from typing import Any

from ollama import ChatResponse

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
    pieces,
)


def hear(asked: WireHttpRequest) -> UnderstoodRequest:
    assert asked.path == "/api/chat", asked.path
    body, history = asked.body, CallHistory()
    for message in body["messages"]:
        match message:
            case {"role": "system" | "user", "content": str(text)}:
                history.said(text)
            case {"role": "assistant", "content": str()}:
                history.replied(*map(_call, message.get("tool_calls", ())))
            case {"role": "tool", "tool_name": str(), "content": str(text)}:
                history.answered(ReturnedResult(message["tool_call_id"], text))
            case _:
                raise AssertionError(f"no message of Ollama's: {message}")
    functions = [tool["function"] for tool in body.get("tools", ())]
    offers = [OfferedTool(each["name"], each["description"], each["parameters"]) for each in functions]
    assert "tool_choice" not in body
    return history.heard(streams=body["stream"], offers=offers, choice="auto")


def write(said: ScriptedReply, stream: bool) -> list[Event]:
    calls = [
        {"function": {"index": index, "name": call.name, "arguments": call.arguments}}
        for index, call in enumerate(said.calls)
    ]
    if not stream:
        return [_line({"content": said.text, **({"tool_calls": calls} if calls else {})}, ended=True)]
    lines = [_line({"content": piece}) for piece in pieces(said.text)]
    lines += [_line({"content": "", "tool_calls": [call]}) for call in calls]
    return [*lines, _line({"content": ""}, ended=True)]


def judge(event: Event, stream: bool) -> object:
    return ChatResponse.model_validate(event)


def _call(call: Any) -> WireCall:
    assert isinstance(call["function"]["arguments"], dict)
    return WireCall(call["id"], call["function"]["name"], call["function"]["arguments"])


def _line(message: Event, *, ended: bool = False) -> Event:
    line: Event = {"model": "said-so", "created_at": "2026-11-15T00:00:00Z", "done": ended}
    line["message"] = {"role": "assistant", **message}
    if ended:
        line |= {"done_reason": "stop", "prompt_eval_count": INPUT_TOKENS, "eval_count": OUTPUT_TOKENS}
    return line
