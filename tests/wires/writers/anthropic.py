"""Anthropic's Messages, from the side of the service. A reply with calls begins with a signed thought."""

from __future__ import annotations

from typing import Any

from anthropic.types import Message, RawMessageStreamEvent
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

_STREAMED: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
PING = {"type": "ping"}


def hear(asked: WireHttpRequest) -> UnderstoodRequest:
    assert asked.path == "/v1/messages", asked.path
    assert "anthropic-version" in asked.headers
    assert asked.body["model"]
    return _heard(asked)


def hear_on_vertex(asked: WireHttpRequest) -> UnderstoodRequest:
    """There the model is in the address, and the body has a version."""
    method = "streamRawPredict" if asked.body.get("stream") else "rawPredict"
    assert asked.path == f"/models/claude-sonnet-4-5@20250929:{method}", asked.path
    assert asked.headers["authorization"].startswith("Bearer ")
    assert asked.body["anthropic_version"] == "vertex-2023-10-16"
    assert "model" not in asked.body
    return _heard(asked)


def _heard(asked: WireHttpRequest) -> UnderstoodRequest:
    body, history = asked.body, CallHistory()
    assert body["max_tokens"] > 0
    history.said(_text(body.get("system", "")))
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"], f"roles must alternate: {roles}"
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant":
            history.replied(*_calls(blocks))
        else:
            _user(blocks, history)
    offers = [
        OfferedTool(tool["name"], tool["description"], tool["input_schema"], tool.get("strict", False))
        for tool in body.get("tools", ())
    ]
    return history.heard(streams=body.get("stream", False), offers=offers, choice=_choice(body.get("tool_choice")))


def write(said: ScriptedReply, stream: bool) -> list[Event]:
    return _events(said) if stream else [_message(_blocks(said), _stop(said))]


def judge(event: Event, stream: bool) -> object:
    if event == PING:
        return event  # the SDK drops it before it looks
    return _STREAMED.validate_python(event) if stream else Message.model_validate(event)


def _calls(blocks: list[Any]) -> list[WireCall]:
    uses = [block for block in blocks if block["type"] == "tool_use"]
    if uses and uses[0]["id"].startswith("toolu_"):
        assert blocks[0]["type"] == "thinking", "the thought before the calls did not come back"
        assert blocks[0]["signature"] == signature(uses[0]["id"])
    return [WireCall(use["id"], use["name"], use["input"]) for use in uses]


def _user(blocks: list[Any], history: CallHistory) -> None:
    kinds = [block["type"] for block in blocks]
    assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result"), "results must come first"
    unanswered = {call.id for call in history.calls} if not history.results else set()
    for block in blocks:
        match block:
            case {"type": "tool_result", "tool_use_id": id, "content": content}:
                unanswered.discard(id)
                history.answered(ReturnedResult(id, _text(content), block.get("is_error", False)))
            case {"type": "text", "text": text}:
                assert text.strip(), "an empty text is refused"
                history.said(text)
            case _:
                raise AssertionError(f"no block of a user: {block}")
    assert not unanswered, f"calls without results are refused: {unanswered}"


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def _choice(choice: Any) -> str:
    match choice:
        case None | {"type": "auto"}:
            return "auto"
        case {"type": "any"}:
            return "required"
        case {"type": "none"}:
            return "none"
        case {"type": "tool", "name": name}:
            return f"={name}"
    raise AssertionError(f"no tool_choice: {choice}")


def _stop(said: ScriptedReply) -> str:
    return "tool_use" if said.calls else "end_turn"


def _blocks(said: ScriptedReply) -> list[Event]:
    blocks: list[Event] = []
    if said.calls:
        blocks.append({"type": "thinking", "thinking": "I need a tool.", "signature": signature(said.calls[0].id)})
    if said.text:
        blocks.append({"type": "text", "text": said.text, "citations": None})
    return blocks + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in said.calls
    ]


def _message(content: list[Event], stop: str | None) -> Event:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "said-so",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS if stop else 1},
    }


def _events(said: ScriptedReply) -> list[Event]:
    events: list[Event] = [{"type": "message_start", "message": _message([], None)}, PING]
    for index, block in enumerate(_blocks(said)):
        begun, deltas = _streamed(block)
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stopped = {"stop_reason": _stop(said), "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stopped, "usage": {"output_tokens": OUTPUT_TOKENS}})
    return [*events, {"type": "message_stop"}]


def _streamed(block: Event) -> tuple[Event, list[Event]]:
    match block:
        case {"type": "thinking", "thinking": thought, "signature": signed}:
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(thought)]
            begun = {"type": "thinking", "thinking": "", "signature": ""}
            return begun, [*deltas, {"type": "signature_delta", "signature": signed}]
        case {"type": "text", "text": text}:
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(text)]
        case {"input": arguments}:
            written = ["", *pieces(as_json(arguments))] if arguments else [""]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in written]
    raise AssertionError(block)
