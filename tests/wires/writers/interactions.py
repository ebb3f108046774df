"""Gemini's Interactions API, from the side of the service. A signed thought stands before the calls of a reply."""

from __future__ import annotations

from typing import Any

from tests.models.interactions import sdk_checks as sdk
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

USAGE = {
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    "total_input_tokens": INPUT_TOKENS,
    "total_cached_tokens": 0,
    "total_output_tokens": OUTPUT_TOKENS - 2,
    "total_tool_use_tokens": 0,
    "total_thought_tokens": 2,
}


def hear(asked: WireHttpRequest) -> UnderstoodRequest:
    assert asked.path == "/v1beta/interactions", asked.path
    assert asked.headers["api-revision"] == "2026-05-20"
    body, history = asked.body, CallHistory()
    assert body["store"] is False
    assert sdk.accepts(body)
    history.said(body.get("system_instruction", ""))
    thoughts: list[str] = []
    for step in body["input"]:
        match step:
            case {"type": "user_input", "content": [*content]}:
                for part in content:
                    history.said(part["text"])
            case {"type": "thought", "signature": sealed}:
                thoughts.append(sealed)
            case {"type": "model_output", "content": [*_]}:
                history.replied()
            case {"type": "function_call", "id": id, "name": name, "arguments": dict(arguments)}:
                history.called(WireCall(id, name, arguments))
                if id.startswith("gi-") and len(history.calls) == 1:
                    assert thoughts.pop() == signature(id), f"the call {id} came back without its thought"
            case {"type": "function_result", "call_id": id, "name": _, "result": result, **more}:
                history.answered(ReturnedResult(id, result, more.get("is_error") is True))
            case _:
                raise AssertionError(f"no step of Interactions: {step}")
    assert not thoughts, "a thought came back without its call"
    offers = [OfferedTool(tool["name"], tool["description"], tool["parameters"]) for tool in body.get("tools", ())]
    choice = body.get("generation_config", {}).get("tool_choice", "auto")
    return history.heard(streams=body["stream"], offers=offers, choice=_choice(choice))


def write(said: ScriptedReply, stream: bool) -> list[Event]:
    return _events(said) if stream else [_about(said, steps=_steps(said), usage=USAGE)]


def judge(event: Event, stream: bool) -> object:
    return sdk.read_event(event) if stream else sdk.read_reply(event)


def _choice(choice: Any) -> str:
    match choice:
        case {"allowed_tools": {"mode": "any", "tools": [name]}}:
            return f"={name}"
    return {"auto": "auto", "any": "required", "none": "none"}[choice]


def _about(said: ScriptedReply | None, **more: Any) -> Event:
    status = "in_progress" if said is None else "requires_action" if said.calls else "completed"
    return {"id": "v1_1", "status": status, "object": "interaction", "model": "said-so", **more}


def _steps(said: ScriptedReply) -> list[Event]:
    steps: list[Event] = []
    if said.text:
        steps.append({"type": "model_output", "content": [{"type": "text", "text": said.text}]})
    if said.calls:
        steps.append({"type": "thought", "signature": signature(said.calls[0].id)})
    calls = ({"id": call.id, "name": call.name, "arguments": call.arguments} for call in said.calls)
    return [*steps, *({"type": "function_call", **call} for call in calls)]


def _events(said: ScriptedReply) -> list[Event]:
    events: list[Event] = [
        {"interaction": _about(None), "event_type": "interaction.created"},
        {"interaction_id": "v1_1", "status": "in_progress", "event_type": "interaction.status_update"},
    ]
    for index, step in enumerate(_steps(said)):
        begins, deltas = _in_pieces(step)
        events.append({"index": index, "step": begins, "event_type": "step.start"})
        events += [{"index": index, "delta": delta, "event_type": "step.delta"} for delta in deltas]
        events.append({"index": index, "event_type": "step.stop"})
    return [*events, {"interaction": _about(said, usage=USAGE), "event_type": "interaction.completed"}]


def _in_pieces(step: Event) -> tuple[Event, list[Event]]:
    match step:
        case {"type": "model_output", "content": [{"text": text}]}:
            return {"type": "model_output"}, [{"type": "text", "text": piece} for piece in pieces(text)]
        case {"type": "thought", "signature": sealed}:
            return {"type": "thought"}, [{"type": "thought_signature", "signature": sealed}]
    parts = pieces(as_json(step["arguments"]))
    deltas: list[Event] = [{"type": "arguments_delta", "arguments": piece} for piece in parts]
    return {**step, "signature": "", "arguments": {}}, deltas
