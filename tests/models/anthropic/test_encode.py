"""Requests to the Messages API say all that was asked, in words that the anthropic package accepts."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail.core.calls import Attachment, ToolCall, ToolResult
from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import NamedTool, ToolChoice, ToolOffer
from handrail.models.anthropic import AnthropicCodec
from handrail.models.anthropic.strict_schemas import StrictSchemaBudget
from handrail.models.gemini import GeminiCodec
from handrail.models.profiles import Profile
from tests.models.anthropic.sdk_checks import accepts, accumulated
from tests.models.anthropic.streams import FULL, block, call, start, stop, text, thought
from tests.models.reply_rounds import CLOCK, SCHEMA, WEATHER, asked, calls_of, decoded, messages_of

CODEC = AnthropicCodec()
PNG = b"\x89PNG"


def body(*messages: Message, codec: AnthropicCodec = CODEC, **settings: Any) -> dict[str, Any]:
    written = codec.encode(asked(*messages, **settings), "claude-x", stream=True).body
    assert accepts(written)
    return written


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


SCENE: tuple[Message, ...] = (
    SupervisorMessage("Be brief."),
    user("What's the weather in SF?"),
    AssistantMessage(""),
    InvocationMessage(ToolCall("call_123", "get_weather", {"location": "San Francisco, CA"})),
    ResultMessage(ToolResult("call_123", "get_weather", '{"temp": 62, "conditions": "Partly cloudy"}')),
    AssistantMessage("The weather in San Francisco is 62°F and partly cloudy."),
    user("Thanks."),
)


@pytest.mark.requirement("converser.processor")
@pytest.mark.requirement("hearthnet.backends.native")
def test_a_whole_conversation_is_written_as_the_document_shows() -> None:
    written = body(*SCENE, tools=(WEATHER,), max_tokens=100, stop=("END",))
    assert written == snapshot(
        {
            "model": "claude-x",
            "max_tokens": 100,
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "What's the weather in SF?"}]},
                {
                    "role": "assistant",
                    "content": [
                        {
                            "type": "tool_use",
                            "id": "call_123",
                            "name": "get_weather",
                            "input": {"location": "San Francisco, CA"},
                        }
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "call_123",
                            "content": '{"temp": 62, "conditions": "Partly cloudy"}',
                        }
                    ],
                },
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "The weather in San Francisco is 62°F and partly cloudy."}],
                },
                {"role": "user", "content": [{"type": "text", "text": "Thanks."}]},
            ],
            "stream": True,
            "system": "Be brief.",
            "tools": [
                {
                    "name": "get_weather",
                    "input_schema": {
                        "type": "object",
                        "properties": {"location": {"type": "string"}},
                        "required": ["location"],
                        "additionalProperties": False,
                    },
                    "description": "The weather now.",
                }
            ],
            "tool_choice": {"type": "auto"},
            "stop_sequences": ["END"],
        }
    )


@pytest.mark.requirement("converser.processor")
def test_a_call_written_for_anthropic_is_read_back_as_the_same_call() -> None:
    use = body(*SCENE, tools=(WEATHER,))["messages"][1]["content"][0]
    assert use == {
        "type": "tool_use",
        "id": "call_123",
        "name": "get_weather",
        "input": {"location": "San Francisco, CA"},
    }
    reply = {**start()["message"], "content": [use], "stop_reason": "tool_use"}
    read = calls_of(decoded(CODEC, [reply]))
    assert read == [ToolCall("call_123", "get_weather", '{"location":"San Francisco, CA"}')]


@pytest.mark.requirement("hearthnet.tool-choice")
@pytest.mark.parametrize(
    ("choice", "parallel", "wire"),
    [
        ("auto", True, {"type": "auto"}),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", True, {"type": "any"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        (NamedTool("clock"), True, {"type": "tool", "name": "clock"}),
        (NamedTool("clock"), False, {"type": "tool", "name": "clock", "disable_parallel_tool_use": True}),
    ],
)
def test_every_choice_has_its_native_form(choice: ToolChoice, parallel: bool, wire: dict[str, Any]) -> None:
    assert body(tools=(WEATHER, CLOCK), tool_choice=choice, parallel=parallel)["tool_choice"] == wire


@pytest.mark.requirement("hearthnet.tool-choice")
def test_a_model_that_thinks_is_not_forced_and_the_caller_is_told() -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    wire = CODEC.encode(asked(tools=(CLOCK,), tool_choice="required", extra=thinking), "m", stream=True)
    assert wire.body["tool_choice"] == {"type": "auto"}
    assert wire.body["thinking"] == thinking["thinking"]
    assert len(wire.notices) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_the_request_says_where_it_goes_and_how_the_reply_comes(stream: bool) -> None:
    codec = AnthropicCodec(betas=("a-1", "b-2"))
    wire = codec.encode(asked(), "claude-x", stream=stream)
    assert accepts(wire.body)
    assert (wire.path, wire.framing) == ("/v1/messages", "sse" if stream else "json")
    assert wire.headers == {"anthropic-version": "2023-06-01", "anthropic-beta": "a-1,b-2"}


def test_thoughts_go_back_exactly_where_they_stood() -> None:
    events = decoded(CODEC, FULL)
    results = [ResultMessage(ToolResult(call.id, call.name, "ok")) for call in calls_of(events)]
    written = body(user("Weather?"), *messages_of(events), *results, tools=(WEATHER, CLOCK))
    theirs = [part.to_dict() for part in accumulated(FULL).content]
    assert written["messages"][1]["content"] == theirs


def test_thoughts_go_back_between_pieces_of_text_too() -> None:
    wire = [start(), *text(0, "One."), *thought(1, "s1", "hm"), *text(2, "Two."), *call(3, "t", "clock", "{}")]
    wire += [*thought(4, "s2", "so"), *text(5, "Three."), *stop("tool_use")]
    written = body(user("?"), *messages_of(decoded(CODEC, wire)), tools=(CLOCK,))
    kinds = [part["type"] for part in written["messages"][1]["content"]]
    assert kinds == ["text", "thinking", "text", "tool_use", "thinking", "text"]


def test_thoughts_of_another_provider_stay_at_home() -> None:
    part = {"text": "Hi.", "thoughtSignature": "c2ln"}
    reply = decoded(GeminiCodec(), [{"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}])
    written = body(user("?"), *messages_of(reply), user("!"))
    assert written["messages"][1]["content"] == [{"type": "text", "text": "Hi."}]


def test_images_and_files_go_to_the_model_from_users_and_from_tools() -> None:
    attached = (Attachment("plot.png", "image/png", PNG), Attachment("a.pdf", "application/pdf", b"%PDF"))
    written = body(
        UserMessage(
            (
                Text("Look:"),
                Media(media_type="image/png", data=PNG),
                Media(media_type="image/jpeg", url="https://x/y.jpg"),
                Media(media_type="application/pdf", data=b"%PDF", name="a.pdf"),
                Media(media_type="text/csv", data=b"a,b", name="t.csv"),
            )
        ),
        AssistantMessage(""),
        InvocationMessage(ToolCall("c", "clock")),
        ResultMessage(ToolResult("c", "clock", "done", attachments=attached)),
        tools=(CLOCK,),
    )
    assert [written["messages"][0]["content"], written["messages"][2]["content"]] == snapshot(
        [
            [
                {"type": "text", "text": "Look:"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
                {"type": "image", "source": {"type": "url", "url": "https://x/y.jpg"}},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
                    "title": "a.pdf",
                },
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "a,b"},
                    "title": "t.csv",
                },
            ],
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "c",
                    "content": [
                        {"type": "text", "text": "done"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
                        {
                            "type": "document",
                            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
                            "title": "a.pdf",
                        },
                    ],
                }
            ],
        ]
    )


def test_what_the_service_does_not_take_is_told_in_words_and_noticed() -> None:
    request = asked(UserMessage((Media(media_type="audio/wav", data=b"RIFF", name="a.wav"),)), seed=3)
    wire = CODEC.encode(request, "m", stream=False)
    assert accepts(wire.body)
    assert "a.wav (audio/wav), 4 bytes" in wire.body["messages"][0]["content"][0]["text"]
    assert len(wire.notices) == 2


def test_a_failed_call_is_marked_and_a_broken_one_is_sent_back_readable() -> None:
    written = body(
        user("?"),
        InvocationMessage(ToolCall("functions.clock:0", "clock", '{"x": ')),
        ResultMessage(ToolResult("functions.clock:0", "clock", "not JSON", outcome="invalid_arguments")),
        tools=(CLOCK,),
    )
    use, result = written["messages"][1]["content"][0], written["messages"][2]["content"][0]
    assert use["id"] == result["tool_use_id"] == "functions_clock_0"
    assert use["input"] == {"unreadable_arguments": '{"x": '}
    assert result["is_error"] is True


def test_roles_alternate_and_a_result_comes_first_in_its_message() -> None:
    written = body(
        user("?"),
        AssistantMessage("Let me see."),
        InvocationMessage(ToolCall("c", "clock")),
        ResultMessage(ToolResult("c", "clock", {"hour": 3})),
        SupervisorMessage("Hurry."),
        DocumentMessage("notes", "n"),
        user("Well?"),
        tools=(CLOCK,),
    )
    assert [message["role"] for message in written["messages"]] == ["user", "assistant", "user"]
    kinds = [part["type"] for part in written["messages"][2]["content"]]
    assert kinds == ["tool_result", "text"]
    assert written["messages"][2]["content"][0]["content"] == '{"hour":3}'


def test_a_prefill_does_not_end_in_white_space() -> None:
    assert body(user("?"), AssistantMessage("The answer is (\n"))["messages"][-1]["content"] == [
        {"type": "text", "text": "The answer is ("}
    ]


@pytest.mark.parametrize("sampling", [True, False])
def test_sampling_is_sent_to_models_that_still_take_it(sampling: bool) -> None:
    # The SDK's types know neither field any more: its newest models refuse both.
    codec = AnthropicCodec(profile=Profile(schema="anthropic", sampling=sampling))
    wire = codec.encode(asked(temperature=0.5, top_p=0.9), "m", stream=True)
    assert (wire.body.get("temperature"), wire.body.get("top_p")) == ((0.5, 0.9) if sampling else (None, None))
    assert len(wire.notices) == (0 if sampling else 2)


def test_only_a_system_text_is_still_a_request() -> None:
    written = body(SupervisorMessage("Greet."))
    assert written["system"] == "Greet."
    assert [message["role"] for message in written["messages"]] == ["user"]


def test_the_cache_is_told_what_stays_the_same() -> None:
    written = body(SupervisorMessage("Be brief."), user("?"), tools=(WEATHER, CLOCK), codec=AnthropicCodec(cache=True))
    marked = {"type": "ephemeral"}
    assert written["system"][-1]["cache_control"] == marked
    assert [tool.get("cache_control") for tool in written["tools"]] == [None, marked]
    assert written["cache_control"] == marked


def test_the_callers_own_fields_join_the_body() -> None:
    extra = {"output_config": {"effort": "low"}, "metadata": {"user_id": "u"}, "cache_control": {"type": "ephemeral"}}
    written = body(extra=extra, response_schema=SCHEMA)
    assert written["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"}
    assert written["metadata"] == {"user_id": "u"}


def test_tools_are_strict_where_the_model_and_the_schema_allow_it() -> None:
    open_ended = ToolOffer("note", "", {"type": "object", "properties": {"a": {"type": "string", "minLength": 3}}})
    codec = AnthropicCodec(profile=Profile(schema="anthropic", strict="subset"))
    assert [tool.get("strict") for tool in body(tools=(WEATHER, open_ended), codec=codec)["tools"]] == [True, None]
    many = tuple(ToolOffer(f"t{number}", "", SCHEMA) for number in range(25))
    assert sum("strict" in tool for tool in body(tools=many, codec=AnthropicCodec(strict=True))["tools"]) == 20


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": False, "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "string", "format": "odd"}}},
        {"type": "object", "additionalProperties": False, "properties": {f"p{n}": {"type": "null"} for n in range(25)}},
    ],
)
def test_a_schema_that_anthropic_would_refuse_is_not_made_strict(schema: dict[str, Any]) -> None:
    assert StrictSchemaBudget().after(schema) is None


def test_without_tools_on_offer_past_calls_are_told_in_words() -> None:
    written = body(*SCENE)
    assert "tools" not in written and "tool_choice" not in written
    assert all(part["type"] == "text" for message in written["messages"] for part in message["content"])


@pytest.mark.requirement("converser.processor")
def test_a_conversation_that_goes_back_and_forth_stays_acceptable() -> None:
    conversation = Conversation().supervised("Be brief.").say("Weather, and the time?")
    for wire in (FULL, [start(), *text(0, "Sunny."), *stop()]):
        request = asked(*conversation.messages, tools=(WEATHER, CLOCK))
        assert accepts(CODEC.encode(request, "m", stream=True).body)
        events = decoded(CODEC, wire, request)
        results = [ResultMessage(ToolResult(call.id, call.name, {"ok": True})) for call in calls_of(events)]
        conversation = conversation.add(*messages_of(events), *results)
    assert accepts(CODEC.encode(asked(*conversation.messages, tools=(WEATHER, CLOCK)), "m", stream=True).body)
    assert conversation.text == "Sunny."


def test_a_block_that_another_server_sends_whole_in_a_stream_is_read_as_whole() -> None:
    use = {"type": "tool_use", "id": "t", "name": "get_weather", "input": {"location": "X"}}
    events = decoded(CODEC, [start(), *block(0, use), *stop("tool_use")])
    assert calls_of(events) == [ToolCall("t", "get_weather", '{"location":"X"}')]
