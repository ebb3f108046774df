"""Bedrock's Converse, from the side of the service. botocore reads it for real, and is the judge of it."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

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

MODEL = "anthropic.claude-sonnet-4-5-20250929-v1:0"
_USAGE = {
    "inputTokens": INPUT_TOKENS,
    "outputTokens": OUTPUT_TOKENS,
    "totalTokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def hear(asked: WireHttpRequest) -> UnderstoodRequest:
    _, place, model, method = asked.path.split("/")
    assert (place, unquote(model)) == ("model", MODEL), asked.path
    assert method in ("converse", "converse-stream"), asked.path
    body, history = asked.body, CallHistory()
    history.said("".join(block["text"] for block in body.get("system", ())))
    for message in body["messages"]:
        if message["role"] == "assistant":
            history.replied(*_calls(message["content"]))
        else:
            _user(message["content"], history)
    config = body.get("toolConfig", {"tools": []})
    offers = [_offer(tool["toolSpec"]) for tool in config["tools"]]
    return history.heard(
        streams=method == "converse-stream", offers=offers, choice=_choice(config.get("toolChoice", {"auto": {}}))
    )


def write(said: ScriptedReply, stream: bool) -> list[Event]:
    blocks, stop = _blocks(said), "tool_use" if said.calls else "end_turn"
    if not stream:
        message = {"role": "assistant", "content": blocks}
        return [
            {"output": {"message": message}, "stopReason": stop, "usage": _USAGE, "metrics": {"latencyMs": 1}},
        ]
    events: list[Event] = [{"messageStart": {"role": "assistant"}}]
    for index, block in enumerate(blocks):
        start, deltas = _streamed(block)
        if start is not None:
            events.append({"contentBlockStart": {"contentBlockIndex": index, "start": start}})
        events += [{"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}} for delta in deltas]
        events.append({"contentBlockStop": {"contentBlockIndex": index}})
    events.append({"messageStop": {"stopReason": stop}})
    return [*events, {"metadata": {"usage": _USAGE, "metrics": {"latencyMs": 1}}}]


def judge(event: Event, stream: bool) -> object:
    """Every reply goes through botocore's parser on its way."""
    return event


def _offer(spec: Any) -> OfferedTool:
    return OfferedTool(spec["name"], spec["description"], spec["inputSchema"]["json"], spec.get("strict", False))


def _calls(blocks: list[Any]) -> list[WireCall]:
    uses = [block["toolUse"] for block in blocks if "toolUse" in block]
    if uses and uses[0]["toolUseId"].startswith("tooluse_"):
        thought = blocks[0]["reasoningContent"]["reasoningText"]
        assert thought["signature"] == signature(uses[0]["toolUseId"])
    return [WireCall(use["toolUseId"], use["name"], use["input"]) for use in uses]


def _user(blocks: list[Any], history: CallHistory) -> None:
    for block in blocks:
        match block:
            case {"text": text}:
                history.said(text)
            case {"toolResult": {"toolUseId": id, "content": [content], "status": status}}:
                history.answered(ReturnedResult(id, content.get("json", content.get("text")), status == "error"))
            case _:
                raise AssertionError(f"no block of a user: {block}")


def _choice(choice: Any) -> str:
    match choice:
        case {"auto": {}}:
            return "auto"
        case {"any": {}}:
            return "required"
        case {"tool": {"name": name}}:
            return f"={name}"
    raise AssertionError(f"no toolChoice: {choice}")


def _blocks(said: ScriptedReply) -> list[Event]:
    blocks: list[Event] = []
    if said.calls:
        thought = {"text": "I need a tool.", "signature": signature(said.calls[0].id)}
        blocks.append({"reasoningContent": {"reasoningText": thought}})
    if said.text:
        blocks.append({"text": said.text})
    return blocks + [
        {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}} for call in said.calls
    ]


def _streamed(block: Event) -> tuple[Event | None, list[Event]]:
    match block:
        case {"text": text}:
            return None, [{"text": piece} for piece in pieces(text)]
        case {"reasoningContent": {"reasoningText": {"text": text, "signature": signed}}}:
            deltas = [{"reasoningContent": {"text": piece}} for piece in pieces(text)]
            return None, [*deltas, {"reasoningContent": {"signature": signed}}]
        case {"toolUse": {"input": arguments, **about}}:
            written = pieces(as_json(arguments)) if arguments else [""]
            return {"toolUse": about}, [{"toolUse": {"input": piece}} for piece in written]
    raise AssertionError(block)
