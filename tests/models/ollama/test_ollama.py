"""Ollama's wire both ways, judged by the `ollama` package's own types."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot
from ollama import ChatResponse, Message
from ollama._types import ChatRequest

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import ModelError, ProtocolError
from handrail.core.events import CallRequested, ReplyFinished
from handrail.core.messages import Artefact, InvocationMessage, ResultMessage, Usage
from handrail.core.model_request import ModelRequest, NamedTool
from handrail.models.ollama import OllamaCodec
from tests.models.openai_chat.conversation_fixtures import (
    CONVERSATION,
    TOOLS,
    DecodedReply,
    answered,
    check_survives,
    numbered,
    replied,
    request_with,
    wire_events,
)


def codec() -> OllamaCodec:
    return OllamaCodec(new_id=numbered())


def body(request: ModelRequest, model: str = "qwen3-vl", *, stream: bool = True) -> dict[str, Any]:
    made = codec().encode(request, model, stream=stream).body
    check(made)
    return made


def check(made: dict[str, Any]) -> None:
    """Read by their types and written again, it is the same but for what the server knows and the package does not."""
    wire = msgspec.json.decode(msgspec.json.encode(made))
    theirs = ChatRequest.model_validate({**wire, "messages": [_as_they_write(message) for message in wire["messages"]]})
    assert theirs.model_dump(exclude_none=True, by_alias=True) == {
        **made,
        "messages": [_without_ids(message) for message in made["messages"]],
    }


def _as_they_write(message: dict[str, Any]) -> Message:
    """Their type takes images as values of another."""
    if "images" in message:
        message = {**message, "images": [{"value": image} for image in message["images"]]}
    return Message.model_validate(message)


def _without_ids(message: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in message.items() if key != "tool_call_id"}
    if "tool_calls" in kept:
        kept["tool_calls"] = [{"function": call["function"]} for call in kept["tool_calls"]]
    return kept


def line(**message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": "", **message}
    return {"model": "qwen3", "created_at": "2026-08-01T00:00:00Z", "message": said, "done": False}


END = {**line(), "done": True, "done_reason": "stop", "prompt_eval_count": 26, "eval_count": 9}
OSLO = {"function": {"index": 0, "name": "get_weather", "arguments": {"city": "Oslo"}}}
CALLS = [
    line(thinking="Hm."),
    line(content="Let me"),
    line(content=" see."),
    line(tool_calls=[{"id": "call_x", **OSLO}]),
    line(tool_calls=[{"function": {"index": 0, "name": "io:plot", "arguments": {"points": [1, 2.5]}}}]),
    END,
]


@pytest.mark.requirement("hearthnet.backends.native")
def test_a_whole_conversation_becomes_messages_that_ollama_takes() -> None:
    assert body(ModelRequest(messages=CONVERSATION, tools=TOOLS)) == snapshot(
        {
            "model": "qwen3-vl",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "content": """\
## Document: cities.txt

Lisbon, Oslo

Weather in the first, and plot it.\
""",
                    "images": ["iVBORyBmYWtl"],
                },
                {
                    "role": "assistant",
                    "content": "Let me look.",
                    "tool_calls": [
                        {"id": "call_1", "function": {"name": "get_weather", "arguments": {"city": "Lisbon"}}},
                        {"id": "call_2", "function": {"name": "io:plot", "arguments": {"points": [1, 2.5]}}},
                    ],
                },
                {"role": "tool", "tool_name": "get_weather", "tool_call_id": "call_1", "content": '{"temp":21}'},
                {
                    "role": "tool",
                    "tool_name": "io:plot",
                    "tool_call_id": "call_2",
                    "content": """\
drawn
[plot.png, image/png: shown below]\
""",
                },
                {"role": "user", "content": "plot.png, from the result of io:plot", "images": ["iVBORyBmYWtl"]},
                {"role": "assistant", "content": "21 degrees."},
                {"role": "user", "content": "Thanks. And Oslo?"},
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "get_weather",
                        "description": "The weather in a city.",
                        "parameters": {
                            "type": "object",
                            "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["c", "f"]}},
                            "required": ["city"],
                        },
                    },
                },
                {
                    "type": "function",
                    "function": {
                        "name": "io:plot",
                        "description": "Draw a line.",
                        "parameters": {
                            "type": "object",
                            "properties": {"points": {"type": "array", "items": {"type": "number"}}},
                            "required": ["points"],
                        },
                    },
                },
            ],
            "stream": True,
        }
    )


def test_settings_are_options_and_a_schema_is_the_format() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    request = request_with(
        max_tokens=9,
        temperature=0.5,
        top_p=0.9,
        stop=("END",),
        seed=7,
        response_schema=schema,
        extra={"think": True, "options": {"num_ctx": 8192}},
    )
    assert body(request, stream=False) == snapshot(
        {
            "model": "qwen3-vl",
            "messages": [{"role": "user", "content": "Weather in Lisbon?"}],
            "format": {"type": "object", "properties": {"n": {"type": "integer"}}},
            "options": {
                "num_predict": 9,
                "temperature": 0.5,
                "top_p": 0.9,
                "stop": ["END"],
                "seed": 7,
                "num_ctx": 8192,
            },
            "stream": False,
            "think": True,
        }
    )


@pytest.mark.requirement("hearthnet.tool-choice")
def test_choices_that_ollama_does_not_know_are_made_by_what_is_offered() -> None:
    none = codec().encode(request_with(tools=TOOLS, tool_choice="none"), "qwen3", stream=True)
    assert "tools" not in none.body and none.notices == ()
    named = codec().encode(request_with(tools=TOOLS, tool_choice=NamedTool("io:plot")), "qwen3", stream=True)
    assert [tool["function"]["name"] for tool in named.body["tools"]] == ["io:plot"]
    required = codec().encode(request_with(tools=TOOLS, tool_choice="required"), "qwen3", stream=True)
    assert len(required.body["tools"]) == 2
    for made in (named, required):
        assert "not enforced" in made.notices[0]


@pytest.mark.requirement("hearthnet.backends.native")
def test_lines_and_the_whole_reply_decode_to_the_same_calls() -> None:
    streamed = replied(codec(), CALLS)
    both = [call for event in CALLS for call in event["message"].get("tool_calls", ())]
    whole = {**END, "message": {"role": "assistant", "content": "Let me see.", "thinking": "Hm.", "tool_calls": both}}
    assert replied(codec(), [whole]) == streamed
    assert streamed == snapshot(
        DecodedReply(
            text="Let me see.",
            thoughts="Hm.",
            calls=(
                ToolCall(id="call_x", name="get_weather", arguments='{"city":"Oslo"}'),
                ToolCall(id="call-1", name="io:plot", arguments='{"points":[1,2.5]}'),
            ),
            notices=(),
            end=ReplyFinished(
                stop="tool_calls",
                model="qwen3",
                usage=Usage(
                    input_tokens=26,
                    output_tokens=9,
                    cached_tokens=0,
                    cache_written_tokens=0,
                    reasoning_tokens=0,
                    cost=None,
                ),
                artefacts=(Artefact(provider="ollama", data={"thinking": "Hm."}),),
            ),
        )
    )


def test_the_calls_are_those_that_ollamas_own_types_read() -> None:
    theirs = [
        (call.function.name, dict(call.function.arguments))
        for event in CALLS
        for call in ChatResponse.model_validate(event).message.tool_calls or ()
    ]
    ours = [(call.name, msgspec.json.decode(str(call.arguments))) for call in replied(codec(), CALLS).calls]
    assert ours == theirs


def test_a_call_is_given_with_the_line_it_came_in() -> None:
    decoder = codec().decoder(request_with(tools=TOOLS))
    assert isinstance(list(decoder.feed(CALLS[3]))[-1], CallRequested)


def test_the_same_call_in_two_lines_is_two_calls() -> None:
    ids = [call.id for call in replied(codec(), [line(tool_calls=[OSLO, OSLO]), line(tool_calls=[OSLO]), END]).calls]
    assert len(set(ids)) == 3


def test_a_reply_and_its_results_go_back_with_their_thoughts() -> None:
    reply = replied(codec(), CALLS)
    going_on = answered(reply, *(ToolResult(made.id, made.name, "done") for made in reply.calls))
    assert body(ModelRequest(messages=going_on.messages, tools=TOOLS))["messages"][1:] == snapshot(
        [
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {"id": "call_x", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}},
                    {"id": "call-1", "function": {"name": "io:plot", "arguments": {"points": [1, 2.5]}}},
                ],
                "thinking": "Hm.",
            },
            {"role": "tool", "tool_name": "get_weather", "tool_call_id": "call_x", "content": "done"},
            {"role": "tool", "tool_name": "io:plot", "tool_call_id": "call-1", "content": "done"},
        ]
    )


@pytest.mark.parametrize(("reason", "stop"), [("stop", "end"), ("length", "max_tokens"), ("load", "end")])
def test_why_a_reply_ended_is_told(reason: str, stop: str) -> None:
    assert replied(codec(), [line(content="x"), {**END, "done_reason": reason}]).end.stop == stop


def test_a_stream_that_breaks_off_is_an_error() -> None:
    decoder = codec().decoder(request_with())
    list(decoder.feed(line(content="x")))
    with pytest.raises(ProtocolError):
        list(decoder.finish())


def test_an_error_in_a_line_is_raised() -> None:
    with pytest.raises(ModelError, match="out of memory"):
        list(codec().decoder(request_with()).feed({"error": "out of memory"}))


@given(st.text(), st.text(), st.text(min_size=1))
def test_whatever_a_model_wrote_can_be_sent_back_to_it(arguments: str, content: str, name: str) -> None:
    call = InvocationMessage(ToolCall("c", name, arguments))
    body(request_with(*request_with().messages, call, ResultMessage(ToolResult("c", name, content)), tools=TOOLS))


KEYS = "model message content thinking tool_calls function name arguments id done done_reason error"


@given(wire_events(KEYS.split()))
def test_whatever_a_server_says_is_read_or_is_a_model_error(events: list[dict[str, Any]]) -> None:
    check_survives(codec(), events)
