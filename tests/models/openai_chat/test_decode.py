"""What comes over the wire: streams as servers write them, whole replies, and what goes wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from inline_snapshot import snapshot
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused
from handrail.core.events import CallRequested, ReplyFinished
from handrail.core.messages import Usage
from handrail.core.model_request import ModelRequest
from handrail.models.openai_chat import OpenAIChatCodec
from tests.models.openai_chat.conversation_fixtures import (
    TOOLS,
    answered,
    check_survives,
    numbered,
    replied,
    request_with,
    wire_events,
)
from tests.models.openai_chat.sdk_checks import check_chat
from tests.models.openai_chat.streams import ONE_CALL, REFUSAL, STREAMS, TEXT, TWO_CALLS, call, chunk


def codec(server: str = "openai") -> OpenAIChatCodec:
    return OpenAIChatCodec(server=server, new_id=numbered())


def accumulated(stream: list[dict[str, Any]]) -> ChatCompletion:
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    for data in stream:
        state.handle_chunk(ChatCompletionChunk.model_validate(data))
    return state.get_final_completion()


@pytest.mark.requirement("hearthnet.backends.native")
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_decodes_to_what_openais_own_accumulator_makes_of_it(name: str) -> None:
    reply = replied(codec(), STREAMS[name])
    message = accumulated(STREAMS[name]).choices[0].message
    assert reply.text == (message.content or "") + (message.refusal or "")
    theirs = [
        ToolCall(made.id, {"io_plot": "io:plot"}.get(made.function.name, made.function.name), made.function.arguments)
        for made in message.tool_calls or ()
        if made.type == "function"
    ]
    assert list(reply.calls) == theirs


@pytest.mark.requirement("hearthnet.backends.native")
@pytest.mark.parametrize("name", STREAMS)
def test_a_whole_reply_decodes_to_the_same_as_its_stream(name: str) -> None:
    whole = accumulated(STREAMS[name]).model_dump(exclude_none=True)
    streamed = replied(codec(), STREAMS[name])
    assert replied(codec(), [whole]) == streamed


def test_a_stream_ends_with_its_usage_its_model_and_why() -> None:
    assert replied(codec(), TWO_CALLS).end == snapshot(
        ReplyFinished(
            stop="tool_calls",
            model="gpt-4.1-2025-04-14",
            usage=Usage(
                input_tokens=100,
                output_tokens=20,
                cached_tokens=64,
                cache_written_tokens=0,
                reasoning_tokens=5,
                cost=None,
            ),
            artefacts=(),
        )
    )
    assert replied(codec(), TEXT).end.stop == "end"
    assert replied(codec(), REFUSAL).end.stop == "refusal"


@pytest.mark.requirement("converser.processor")
def test_a_native_call_becomes_a_call_as_the_document_shows() -> None:
    function = {"name": "get_weather", "arguments": '{"location": "San Francisco, CA"}'}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_123", "type": "function", "function": function}],
    }
    reply = replied(codec(), [{"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}])
    assert reply.calls == (ToolCall("call_123", "get_weather", '{"location": "San Francisco, CA"}'),)


@pytest.mark.requirement("converser.processor")
def test_a_reply_and_its_results_go_back_as_they_came() -> None:
    reply = replied(codec(), TWO_CALLS)
    going_on = answered(reply, *(ToolResult(made.id, made.name, "done") for made in reply.calls))
    body = codec().encode(ModelRequest(messages=going_on.messages, tools=TOOLS), "gpt-4.1", stream=True).body
    check_chat(body)
    theirs = accumulated(TWO_CALLS).choices[0].message.model_dump(exclude_none=True, exclude={"parsed"})
    for made in theirs["tool_calls"]:
        made.pop("index", None)
        made["function"].pop("parsed_arguments", None)
    assert body["messages"][1] == theirs


def test_nulls_that_only_the_strict_schema_asked_for_are_taken_out() -> None:
    stream = [chunk(call(0, "c", "get_weather", '{"city":"Lisbon","unit":null}')), chunk({}, "tool_calls")]
    [made] = replied(codec(), stream).calls
    assert made.arguments == '{"city":"Lisbon"}'


# ── what compatible servers write ──


@pytest.mark.requirement("hearthnet.backends.compatible")
@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(
            [chunk(call(0, "c", "get_weather", {"city": "Oslo"})), chunk({}, "tool_calls")], id="arguments as an object"
        ),
        pytest.param(
            [chunk(call(None, "c", "get_weather", '{"city":"Oslo"}')), chunk({}, "stop")], id="no index, ends with stop"
        ),
        pytest.param(
            [
                chunk({"function_call": {"name": "get_weather", "arguments": ""}}),
                chunk({"function_call": {"arguments": '{"city":"Oslo"}'}}),
                chunk({}, "function_call"),
            ],
            id="the older form",
        ),
        pytest.param(
            [chunk({**call(0, "c", "get_weather", '{"city":"Oslo"}')}, "tool_calls"), chunk(), chunk()],
            id="call and finish in one chunk, empty choices",
        ),
        pytest.param(
            [
                {"choices": [{"delta": call(0, "c", "get_weather", '{"city":"Oslo"}')}]},
                {"choices": [{"finish_reason": "tool_calls"}]},
            ],
            id="as little as can be",
        ),
    ],
)
def test_calls_are_read_however_a_server_writes_them(stream: list[dict[str, Any]]) -> None:
    reply = replied(codec("vllm"), stream)
    [made] = reply.calls
    assert (made.name, made.arguments) == ("get_weather", '{"city":"Oslo"}')
    assert reply.end.stop == "tool_calls"


@pytest.mark.requirement("hearthnet.backends.compatible")
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_read_from_their_field_and_kept_for_the_way_back(field: str) -> None:
    stream = [chunk({field: "Hm, "}), chunk({field: "Oslo."}), *ONE_CALL[:-1]]
    reply = replied(codec("deepseek"), stream)
    assert reply.thoughts == "Hm, Oslo."
    going_on = answered(reply, ToolResult("call_a", "get_weather", "3"))
    body = (
        codec("deepseek")
        .encode(ModelRequest(messages=going_on.messages, tools=TOOLS), "deepseek-chat", stream=True)
        .body
    )
    assert body["messages"][1]["reasoning_content"] == "Hm, Oslo."


def test_the_pieces_of_openrouters_thoughts_are_put_together_by_index_and_go_back() -> None:
    pieces = [
        {"type": "reasoning.text", "text": "Hm, ", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.text", "text": "Oslo.", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.text", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.encrypted", "data": "ZW5j", "id": "rs_1", "index": 0},
    ]
    stream = [chunk({"reasoning": piece.get("text"), "reasoning_details": [piece]}) for piece in pieces]
    reply = replied(codec("openrouter"), [*stream, *ONE_CALL[:-1]])
    assert reply.thoughts == "Hm, Oslo."
    whole = [{**pieces[0], "text": "Hm, Oslo.", "signature": "c2ln"}, pieces[3]]
    assert reply.end.artefacts[0].data["reasoning_details"] == whole
    going_on = ModelRequest(messages=answered(reply, ToolResult("call_a", "get_weather", "3")).messages, tools=TOOLS)
    body = codec("openrouter").encode(going_on, "anthropic/claude", stream=True).body
    assert body["messages"][1]["reasoning_details"] == whole


def test_thoughts_that_come_only_in_their_details_are_shown() -> None:
    details = [{"type": "reasoning.summary", "summary": "Oslo it is.", "index": 0}]
    assert replied(codec("vllm"), [chunk({"reasoning_details": details}, "stop")]).thoughts == "Oslo it is."


def test_the_signature_of_a_call_goes_back_with_the_call() -> None:
    signed = {"google": {"thought_signature": "c2ln"}}
    stream = [chunk(call(0, "c", "get_weather", '{"city":"Oslo"}')), chunk({}, "tool_calls")]
    stream[0]["choices"][0]["delta"]["tool_calls"][0]["extra_content"] = signed
    reply = replied(codec("compatible"), stream)
    going_on = ModelRequest(messages=answered(reply, ToolResult("c", "get_weather", "3")).messages, tools=TOOLS)
    body = codec("compatible").encode(going_on, "gemini-3-pro", stream=True).body
    assert body["messages"][1]["tool_calls"][0]["extra_content"] == signed


def test_mistrals_parts_are_text_and_thoughts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    reply = replied(
        codec("mistral"), [chunk({"content": [thinking, {"type": "text", "text": "Yes."}]}), chunk({}, "stop")]
    )
    assert (reply.thoughts, reply.text) == ("Hm.", "Yes.")


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 8},
            Usage(input_tokens=9, output_tokens=2, cached_tokens=8),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4},
            Usage(input_tokens=9, output_tokens=2, cached_tokens=4),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 2, "cost": 0.5}, Usage(input_tokens=9, output_tokens=2, cost=0.5)),
        ({"prompt_tokens": -9, "completion_tokens": 10**350, "cost": 10**350}, Usage()),
    ],
)
def test_tokens_are_counted_as_deepseek_kimi_and_resellers_report_them(usage: dict[str, Any], counted: Usage) -> None:
    assert replied(codec("kimi"), [chunk({"content": "x"}, "stop"), chunk(usage=usage)]).end.usage == counted
    inside = chunk({"content": "x"}, "stop")
    inside["choices"][0]["usage"] = usage
    assert replied(codec("kimi"), [inside]).end.usage == counted


def test_tokens_of_a_stream_of_groq_are_counted_where_it_reports_them() -> None:
    last = {
        **chunk({"content": "x"}, "stop"),
        "x_groq": {"id": "r", "usage": {"prompt_tokens": 21, "completion_tokens": 9}},
    }
    assert replied(codec("groq"), [last]).end.usage == Usage(input_tokens=21, output_tokens=9)


# ── what goes wrong ──


@pytest.mark.parametrize("kept", range(len(TWO_CALLS) - 2))
def test_a_stream_that_breaks_off_is_an_error_and_gives_no_call(kept: int) -> None:
    decoder = codec().decoder(request_with(tools=TOOLS))
    given_out = [event for data in TWO_CALLS[:kept] for event in decoder.feed(data)]
    assert not any(isinstance(event, CallRequested) for event in given_out)
    with pytest.raises(ProtocolError):
        list(decoder.finish())


def test_a_call_that_a_limit_cut_is_not_made_and_whole_ones_before_it_are() -> None:
    reply = replied(codec(), [*TWO_CALLS[:5], chunk({}, "length")])
    assert [made.name for made in reply.calls] == ["get_weather"]
    assert reply.end.stop == "max_tokens"
    assert len(reply.notices) == 1


def test_a_call_that_a_limit_cut_before_its_arguments_is_not_made_without_them() -> None:
    assert replied(codec(), [*TWO_CALLS[:4], chunk({}, "length")]).calls == replied(codec(), TWO_CALLS).calls[:1]


def test_a_call_that_comes_after_the_finish_reason_is_not_lost() -> None:
    late = [chunk({"content": "x"}, "stop"), chunk(call(0, "c", "get_weather", "{}"))]
    assert [made.id for made in replied(codec("vllm"), late).calls] == ["c"]


def test_an_empty_finish_reason_is_none() -> None:
    stream = [chunk({"content": "a"}, ""), chunk({"content": "b"}, "")]
    assert replied(codec("vllm"), [*stream, chunk({}, "stop")]).text == "ab"
    with pytest.raises(ProtocolError):
        replied(codec("vllm"), stream)


@pytest.mark.parametrize("reason", ["", None])
def test_a_stream_that_is_done_without_a_reason_is_complete(reason: str | None) -> None:
    decoder = codec("compatible").decoder(request_with(tools=TOOLS))
    events = [event for data in (*TWO_CALLS[:-2], chunk({}, reason)) for event in decoder.feed(data)]
    decoder.done()
    events += decoder.finish()
    assert [event.call.id for event in events if isinstance(event, CallRequested)] == ["call_a", "call_b"]
    assert isinstance(events[-1], ReplyFinished)
    assert events[-1].stop == "tool_calls"


def test_a_whole_reply_without_a_reason_is_complete() -> None:
    said = {"object": "chat.completion", "choices": [{"message": {"content": "4"}, "finish_reason": ""}]}
    assert replied(codec("compatible"), [said]).end.stop == "end"


def test_a_stream_that_is_done_and_said_nothing_is_an_error() -> None:
    decoder = codec("compatible").decoder(request_with())
    list(decoder.feed(chunk({"content": ""}, "")))
    decoder.done()
    with pytest.raises(ProtocolError):
        list(decoder.finish())


def test_a_call_that_groq_refused_is_given_to_the_model_to_correct() -> None:
    failed = {
        "message": "Tool call validation failed: parameters did not match schema",
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": '{"name": "get_weather", "arguments": {"town": "Oslo"}}',
        "status_code": 400,
    }
    reply = replied(codec("groq"), [chunk({"reasoning": "Hm."}), {"error": failed}])
    assert [(made.name, made.arguments) for made in reply.calls] == [("get_weather", '{"town":"Oslo"}')]
    assert reply.end.stop == "tool_calls"
    assert "did not match schema" in reply.notices[0]


@pytest.mark.parametrize("text", ["maybe", '{"name": ""}', '{"name": "get_weather", "argum'])
def test_what_groq_refused_and_is_no_call_is_an_error_worth_another_try(text: str) -> None:
    failed = {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": text}
    with pytest.raises(ProtocolError):
        replied(codec("groq"), [chunk({"reasoning": "Hm."}), {"error": failed}])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}, RateLimited),
        ({"message": "oops", "type": "server_error", "code": None}, ModelUnavailable),
        ({"message": "too long", "type": "exceed_context_size_error", "code": 400}, RequestRefused),
        ({"message": "strange"}, ProtocolError),
        ("out of memory", ProtocolError),
    ],
)
def test_an_error_in_mid_stream_is_the_error_it_would_have_been(error: Any, kind: type[ModelError]) -> None:
    decoder = codec().decoder(request_with())
    list(decoder.feed(TEXT[1]))
    with pytest.raises(kind):
        list(decoder.feed({"error": error}))


def test_a_reason_that_nobody_knows_ends_the_reply_with_a_notice() -> None:
    reply = replied(codec(), [chunk({"content": "x"}, "eos")])
    assert reply.end.stop == "end"
    assert reply.notices


def test_vllm_says_at_which_sequence_it_stopped() -> None:
    last = chunk({}, "stop")
    last["choices"][0]["stop_reason"] = "END"
    assert replied(codec("vllm"), [last]).end.stop == "stop_sequence"


KEYS = (
    "choices delta message tool_calls function name arguments index id content error usage model finish_reason "
    "function_call type text thinking reasoning_content"
)


@given(wire_events(KEYS.split()))
def test_whatever_a_server_says_is_read_or_is_a_model_error(stream: list[dict[str, Any]]) -> None:
    check_survives(codec(), stream)
