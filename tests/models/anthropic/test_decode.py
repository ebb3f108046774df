"""Replies of the Messages API come out as the same events however they were sent, and never as half a call."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.calls import ToolCall
from handrail.core.errors import ModelUnavailable, ProtocolError, RateLimited
from handrail.core.events import CallRequested, TextDelta
from handrail.core.jsontext import parse_object
from handrail.core.messages import Usage
from handrail.core.model_request import ToolOffer
from handrail.models.anthropic import AnthropicCodec
from tests.models.anthropic.sdk_checks import accumulated
from tests.models.anthropic.streams import FULL, Event, block, call, start, stop, text
from tests.models.reply_rounds import asked, calls_of, decoded, end_of, notices_of, text_of, thoughts_of

CODEC = AnthropicCodec()


@pytest.mark.requirement("hearthnet.backends.native")
@pytest.mark.requirement("abstractllm.anthropic")
def test_a_stream_gives_text_thoughts_and_calls_as_they_come() -> None:
    events = decoded(CODEC, FULL)
    assert text_of(events) == "I'll look that up."
    assert thoughts_of(events) == "The user wants weather.And the time."
    assert calls_of(events) == [
        ToolCall("toolu_1", "get_weather", '{"location": "Lisbon"}'),
        ToolCall("toolu_2", "clock", "{}"),
    ]
    assert end_of(events).stop == "tool_calls"
    assert end_of(events).model == "claude-x"


@pytest.mark.requirement("hearthnet.backends.native")
def test_the_sdk_makes_the_same_blocks_of_the_same_stream() -> None:
    message, events = accumulated(FULL), decoded(CODEC, FULL)
    theirs = [(use.id, use.name, use.input) for use in message.content if use.type == "tool_use"]
    assert theirs == [(use.id, use.name, parse_object(str(use.arguments))) for use in calls_of(events)]
    assert "".join(part.text for part in message.content if part.type == "text") == text_of(events)
    kept = [part.to_dict() for part in message.content if part.type in ("thinking", "redacted_thinking")]
    assert kept == [artefact.data["block"] for artefact in end_of(events).artefacts]


@pytest.mark.requirement("hearthnet.backends.native")
def test_a_whole_reply_gives_what_its_stream_gives() -> None:
    whole = accumulated(FULL).to_dict()
    streamed, at_once = decoded(CODEC, FULL), decoded(CODEC, [whole])
    assert text_of(at_once) == text_of(streamed)
    assert end_of(at_once) == end_of(streamed)
    read = [(use.id, use.name, parse_object(str(use.arguments))) for use in calls_of(at_once)]
    assert read == [(use.id, use.name, parse_object(str(use.arguments))) for use in calls_of(streamed)]


def test_cached_input_counts_as_input_and_is_told_apart() -> None:
    assert end_of(decoded(CODEC, FULL)).usage == Usage(
        input_tokens=135, output_tokens=42, cached_tokens=100, cache_written_tokens=10, reasoning_tokens=9
    )


@given(st.text(), st.lists(st.integers(0, 40)))
def test_arguments_are_as_they_were_written_however_they_were_cut(value: str, cuts: list[int]) -> None:
    written = json.dumps({"location": value})
    places = sorted({0, len(written), *(cut for cut in cuts if cut < len(written))})
    pieces = [written[start:end] for start, end in pairwise(places)]
    events = decoded(CODEC, [start(), *call(0, "t", "get_weather", *pieces), *stop("tool_use")])
    assert [use.arguments for use in calls_of(events)] == [written]


def test_a_call_is_given_out_when_its_block_ends_not_when_the_reply_does() -> None:
    decoder = CODEC.decoder(asked())
    given = [event for data in [start(), *call(0, "t", "clock", "{}")] for event in decoder.feed(data)]
    assert any(isinstance(event, CallRequested) for event in given)


def test_arguments_cut_by_the_token_limit_stay_text_for_the_executor_to_refuse() -> None:
    events = decoded(CODEC, [start(), *call(0, "t", "get_weather", '{"location": "Lis'), *stop("max_tokens")])
    assert [use.arguments for use in calls_of(events)] == ['{"location": "Lis']
    assert end_of(events).stop == "max_tokens"


@pytest.mark.parametrize("input", [{}, {"location": "Lis"}])
def test_a_whole_call_that_the_token_limit_may_have_cut_is_dropped(input: dict[str, Any]) -> None:
    use = {"type": "tool_use", "id": "t", "name": "get_weather", "input": input}
    events = decoded(CODEC, [{**start()["message"], "content": [use], "stop_reason": "max_tokens"}])
    assert calls_of(events) == []
    assert notices_of(events) == [
        "the reply reached its token limit inside a call to 'get_weather'; the call was dropped"
    ]


def test_a_call_before_the_one_that_was_cut_is_whole() -> None:
    wire = [start(), *call(0, "t", "clock"), *call(1, "u", "clock"), *stop("max_tokens")]
    assert [use.id for use in calls_of(decoded(CODEC, wire))] == ["t"]


@pytest.mark.parametrize("length", range(1, len(FULL) - 1))
def test_a_stream_that_breaks_off_is_an_error(length: int) -> None:
    with pytest.raises(ProtocolError):
        decoded(CODEC, FULL[:length])


@pytest.mark.parametrize(
    ("kind", "error"), [("overloaded_error", ModelUnavailable), ("rate_limit_error", RateLimited), ("x", ProtocolError)]
)
def test_an_error_event_is_raised_as_what_it_is(kind: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="Overloaded"):
        decoded(CODEC, [start(), {"type": "error", "error": {"type": kind, "message": "Overloaded"}}])


def test_the_endless_words_of_an_error_are_shown_in_part() -> None:
    with pytest.raises(RateLimited) as caught:
        decoded(CODEC, [start(), {"type": "error", "error": {"type": "rate_limit_error", "message": "slow " * 10_000}}])
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("reason", "ours", "words"),
    [
        ("end_turn", "end", 0),
        ("stop_sequence", "stop_sequence", 0),
        ("max_tokens", "max_tokens", 0),
        ("model_context_window_exceeded", "max_tokens", 1),
        ("refusal", "refusal", 0),
        ("pause_turn", "end", 1),
        ("something_new", "end", 1),
    ],
)
def test_every_stop_reason_has_a_meaning(reason: str, ours: str, words: int) -> None:
    events = decoded(CODEC, [start(), *text(0, "Hm."), *stop(reason)])
    assert (end_of(events).stop, len(notices_of(events))) == (ours, words)


def test_a_refusal_says_why() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "Not this."}
    end: Event = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}, "usage": {}}
    assert notices_of(decoded(CODEC, [start(), end])) == ["Not this."]


def test_blocks_may_interleave_and_events_be_new() -> None:
    first, second = call(0, "a", "clock", "{}"), call(1, "b", "get_weather", '{"location":', '"X"}')
    woven = [start(), first[0], second[0], second[1], {"type": "brand_new"}, first[1], second[2], second[3], first[2]]
    events = decoded(CODEC, [*woven, *stop("tool_use")])
    assert {use.id: use.arguments for use in calls_of(events)} == {"a": "{}", "b": '{"location":"X"}'}


@pytest.mark.parametrize("wrong", [{"hello": 1}, {"type": "content_block_delta", "index": 7, "delta": {}}])
def test_what_cannot_be_read_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        decoded(CODEC, [start(), wrong])


def test_names_come_back_as_ours() -> None:
    request = asked(tools=(ToolOffer("io:read file", "", {"type": "object"}),))
    wire = CODEC.encode(request, "m", stream=True).body["tools"][0]["name"]
    events = decoded(CODEC, [start(), *call(0, "t", wire, "{}"), *stop("tool_use")], request)
    assert [use.name for use in calls_of(events)] == ["io:read file"]


def test_a_block_of_the_services_own_tools_is_no_call_of_ours() -> None:
    searching = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    typed = {"type": "input_json_delta", "partial_json": '{"query":"x"}'}
    events = decoded(CODEC, [start(), *block(0, searching, typed), *text(1, "Found."), *stop()])
    assert calls_of(events) == []
    assert [event for event in events if isinstance(event, TextDelta)] == [TextDelta(text="Found.")]
    assert end_of(events).artefacts[0].data == {"block": {**searching, "input": {"query": "x"}}, "alone": True}


def test_the_input_of_the_services_own_tools_may_not_be_endless() -> None:
    searching = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    typed = {"type": "input_json_delta", "partial_json": '{"a":' * 100_000}
    with pytest.raises(ProtocolError, match="not JSON"):
        decoded(CODEC, [start(), *block(0, searching, typed)])


def test_a_message_that_is_begun_twice_is_one_message() -> None:
    assert text_of(decoded(CODEC, [start(), start(), *text(0, "Hi."), *stop("end_turn")])) == "Hi."


def test_another_message_inside_of_a_reply_is_an_error_and_gives_none_of_its_calls() -> None:
    other = {**start()["message"], "id": "msg_other"}
    decoder = CODEC.decoder(asked())
    first = [start(), *text(0, "Let me look.")]
    assert text_of([event for data in first for event in decoder.feed(data)]) == "Let me look."
    with pytest.raises(ProtocolError, match="another message"):
        list(decoder.feed({"type": "message_start", "message": other}))


def test_what_the_service_made_of_a_long_conversation_goes_back_whole() -> None:
    pieces = [{"type": "compaction_delta", "content": "The user said hello."}]
    wire = [start(), *block(0, {"type": "compaction", "content": None}, *pieces), *text(1, "Hello."), *stop("end_turn")]
    assert [artefact.data["block"] for artefact in end_of(decoded(CODEC, wire)).artefacts] == [
        {"type": "compaction", "content": "The user said hello."}
    ]


def test_tokens_of_shortening_the_conversation_are_counted() -> None:
    rounds = [{"type": "compaction", "input_tokens": 100, "output_tokens": 80, "cache_read_input_tokens": 5000}]
    plain = end_of(decoded(CODEC, [start(), *text(0, "Hi."), *stop("end_turn")])).usage
    counted = end_of(decoded(CODEC, [start(), *text(0, "Hi."), *stop("end_turn", iterations=rounds)])).usage
    assert counted.input_tokens == plain.input_tokens + 5100
    assert counted.output_tokens == plain.output_tokens + 80


def test_blocks_pieces_and_events_that_nobody_knows_are_noticed_and_the_block_goes_back() -> None:
    new = {"type": "dream", "images": [1]}
    wire = [start(), {"type": "weather_changed"}, *block(0, new, {"type": "dream_delta"}), *text(1, "Hi.")]
    events = decoded(CODEC, [*wire, *stop("end_turn")])
    assert text_of(events) == "Hi."
    assert [artefact.data["block"] for artefact in end_of(events).artefacts] == [new]
    for kind, notice in zip(("weather_changed", "dream_delta", "dream"), notices_of(events), strict=True):
        assert repr(kind) in notice
