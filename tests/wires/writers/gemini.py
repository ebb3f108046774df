"""Gemini's generateContent, from the side of the service. The first call of a reply is signed."""

from __future__ import annotations

from typing import Any

from google.genai.types import GenerateContentResponse

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
    signature,
)


def hear(asked: WireHttpRequest) -> UnderstoodRequest:
    return _heard(asked, "/v1beta/models/gemini-2.5-flash")


def hear_on_vertex(asked: WireHttpRequest) -> UnderstoodRequest:
    """There the version is in the address, before the project."""
    assert asked.headers["authorization"].startswith("Bearer ")
    return _heard(asked, "/models/gemini-2.5-flash")


def _heard(asked: WireHttpRequest, where: str) -> UnderstoodRequest:
    place, _, method = asked.path.rpartition(":")
    assert place == where, asked.path
    assert method in ("generateContent", "streamGenerateContent?alt=sse"), method
    body, history = asked.body, CallHistory()
    history.said("".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", ())))
    for content in body["contents"]:
        if content["role"] == "model":
            history.replied(*_calls(content["parts"]))
        else:
            _user(content["parts"], history)
    declared = [tool for group in body.get("tools", ()) for tool in group["functionDeclarations"]]
    offers = [OfferedTool(each["name"], each["description"], each["parametersJsonSchema"]) for each in declared]
    choice = _choice(body.get("toolConfig", {}).get("functionCallingConfig", {}))
    return history.heard(streams=method.startswith("stream"), offers=offers, choice=choice)


def write(said: ScriptedReply, stream: bool) -> list[Event]:
    calls = [_call(call, first=index == 0) for index, call in enumerate(said.calls)]
    if not stream:
        return [_reply([*([{"text": said.text}] if said.text else []), *calls], ended=True)]
    parts = [{"text": piece} for piece in pieces(said.text)] + calls
    return [*(_reply([part], ended=False) for part in parts[:-1]), _reply(parts[-1:], ended=True)]


def judge(event: Event, stream: bool) -> object:
    return GenerateContentResponse.model_validate(event)


def _calls(parts: list[Any]) -> list[WireCall]:
    found = [part for part in parts if "functionCall" in part]
    if found and found[0]["functionCall"]["id"].startswith("g-"):
        signed = found[0].get("thoughtSignature")
        assert signed == signature(found[0]["functionCall"]["id"]), "the call came back without its signature"
    uses = [part["functionCall"] for part in found]
    return [WireCall(use["id"], use["name"], use["args"]) for use in uses]


def _user(parts: list[Any], history: CallHistory) -> None:
    for part in parts:
        match part:
            case {"text": text}:
                history.said(text)
            case {"functionResponse": {"id": id, "name": _, "response": {"output": content}}}:
                history.answered(ReturnedResult(id, content, False))
            case {"functionResponse": {"id": id, "name": _, "response": {"error": content}}}:
                history.answered(ReturnedResult(id, content, True))
            case _:
                raise AssertionError(f"no part of a user: {part}")


def _choice(config: Any) -> str:
    match config:
        case {"mode": "ANY", "allowedFunctionNames": [name]}:
            return f"={name}"
        case {"mode": "AUTO" | "ANY" | "NONE" as mode}:
            return {"AUTO": "auto", "ANY": "required", "NONE": "none"}[mode]
    return "auto"


def _call(call: WireCall, *, first: bool) -> Event:
    part: Event = {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}
    return {**part, "thoughtSignature": signature(call.id)} if first else part


def _reply(parts: list[Event], *, ended: bool) -> Event:
    candidate: Event = {"index": 0, "content": {"role": "model", "parts": parts}}
    reply = {"candidates": [candidate], "modelVersion": "said-so", "responseId": "r1"}
    counts = {"promptTokenCount": INPUT_TOKENS, "totalTokenCount": INPUT_TOKENS}
    if ended:
        candidate["finishReason"] = "STOP"
        counts |= {"candidatesTokenCount": OUTPUT_TOKENS, "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS}
    return {**reply, "usageMetadata": counts}
