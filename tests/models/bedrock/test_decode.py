"""Replies of Converse come out as events, from botocore's parser as from plain JSON."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from handrail.core.calls import ToolCall
from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused
from handrail.core.jsontext import parse_object
from handrail.core.messages import Usage
from handrail.models.bedrock import BedrockCodec
from tests.models.bedrock.botocore_checks import parsed
from tests.models.bedrock.streams import BEGIN, STREAM, WHOLE, call, delta, ended, stop
from tests.models.reply_rounds import asked, calls_of, decoded, end_of, notices_of, text_of, thoughts_of

CODEC = BedrockCodec()


def test_a_stream_gives_text_thoughts_and_calls() -> None:
    events = decoded(CODEC, STREAM)
    assert text_of(events) == "Let me look."
    assert thoughts_of(events) == "The user wants weather."
    assert calls_of(events) == [
        ToolCall("tooluse_1", "get_weather", '{"location": "Lisbon"}'),
        ToolCall("tooluse_2", "clock", "{}"),
    ]
    assert end_of(events).stop == "tool_calls"
    assert end_of(events).usage == Usage(input_tokens=130, output_tokens=30, cached_tokens=100, cache_written_tokens=10)


def test_the_bytes_on_the_wire_give_the_same_through_botocores_parser() -> None:
    assert parsed(STREAM) == STREAM
    assert decoded(CODEC, parsed(STREAM)) == decoded(CODEC, STREAM)


def test_plain_json_gives_the_same_as_botocore() -> None:
    plain = [msgspec.json.decode(msgspec.json.encode(event)) for event in STREAM]
    assert decoded(CODEC, plain) == decoded(CODEC, STREAM)


def test_an_event_may_be_named_beside_its_data() -> None:
    decoder = CODEC.decoder(asked())
    events = [found for event in STREAM for kind, data in event.items() for found in decoder.feed(data, kind)]
    assert [*events, *decoder.finish()] == decoded(CODEC, STREAM)


def test_a_whole_reply_gives_what_its_stream_gives() -> None:
    streamed, at_once = decoded(CODEC, STREAM), decoded(CODEC, [WHOLE])
    assert end_of(at_once) == end_of(streamed)
    assert text_of(at_once) == text_of(streamed)
    assert [parse_object(str(use.arguments)) for use in calls_of(at_once)] == [{"location": "Lisbon"}, {}]


def test_what_must_go_back_can_be_written_as_json() -> None:
    artefacts = end_of(decoded(CODEC, STREAM)).artefacts
    assert [artefact.data["block"] for artefact in artefacts] == [
        {"reasoningContent": {"reasoningText": {"text": "The user wants weather.", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": base64.b64encode(b"\x00\xff").decode()}},
    ]


def test_thoughts_that_are_not_signed_do_not_go_back() -> None:
    wire = [BEGIN, delta(0, reasoningContent={"text": "hm"}), ended(0), delta(1, text="Hi."), ended(1)]
    assert end_of(decoded(CODEC, [*wire, *stop("end_turn")])).artefacts == ()


def test_the_services_own_tools_are_no_calls_of_ours() -> None:
    use = {"toolUseId": "s", "name": "nova_grounding", "type": "server_tool_use"}
    begun = {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": use}}}
    found = {"contentBlockStart": {"contentBlockIndex": 1, "start": {"toolResult": {"toolUseId": "s"}}}}
    wire = [BEGIN, begun, delta(0, toolUse={"input": '{"q":1}'}), ended(0), found]
    wire += [delta(1, toolResult=[{"text": "x"}]), ended(1), *stop("end_turn")]
    events = decoded(CODEC, wire)
    assert calls_of(events) == []
    assert [artefact.data["block"] for artefact in end_of(events).artefacts] == [
        {"toolUse": {**use, "input": {"q": 1}}},
        {"toolResult": {"toolUseId": "s", "content": [{"text": "x"}]}},
    ]


@pytest.mark.parametrize("kind", ["tool_use", "function", "yet_to_be_invented", None, 7])
def test_a_call_is_a_call_whatever_type_it_names_but_the_services_own(kind: object) -> None:
    streamed = call(0, "t", "get_weather", '{"location": "Lisbon"}')
    streamed[0]["contentBlockStart"]["start"]["toolUse"]["type"] = kind
    use = {"toolUseId": "t", "name": "get_weather", "input": {"location": "Lisbon"}, "type": kind, "more": {"x": 1}}
    whole = {**WHOLE, "output": {"message": {"role": "assistant", "content": [{"toolUse": use}]}}}
    for events in (decoded(CODEC, [BEGIN, *streamed, *stop("tool_use")]), decoded(CODEC, [whole])):
        assert [(made.id, parse_object(str(made.arguments))) for made in calls_of(events)] == [
            ("t", {"location": "Lisbon"})
        ]
        assert end_of(events).stop == "tool_calls"


def test_a_whole_call_without_input_is_a_call_without_arguments() -> None:
    use = {"toolUseId": "t", "name": "clock", "type": "tool_use"}
    whole = {**WHOLE, "output": {"message": {"role": "assistant", "content": [{"toolUse": use}]}}}
    assert calls_of(decoded(CODEC, [whole])) == [ToolCall("t", "clock", "{}")]


def test_an_event_that_nobody_knows_is_noticed_once_and_changes_nothing() -> None:
    new: Any = {"SDK_UNKNOWN_MEMBER": {"name": "contentBlockAdvice"}}
    events = decoded(CODEC, [new, *STREAM[:5], new, *STREAM[5:]])
    assert [event for event in events if event not in decoded(CODEC, STREAM)] == events[:1]
    assert "contentBlockAdvice" in notices_of(events)[0]


def test_a_call_without_arguments_that_the_token_limit_may_have_cut_is_dropped() -> None:
    events = decoded(CODEC, [BEGIN, *call(0, "t", "clock"), *stop("max_tokens")])
    assert calls_of(events) == []
    assert len(notices_of(events)) == 1
    cut = decoded(CODEC, [BEGIN, *call(0, "t", "get_weather", '{"loc'), *stop("max_tokens")])
    assert [use.arguments for use in calls_of(cut)] == ['{"loc']


@pytest.mark.parametrize("length", range(len(STREAM) - 1))
def test_a_stream_without_a_stop_reason_is_an_error(length: int) -> None:
    with pytest.raises(ProtocolError):
        decoded(CODEC, STREAM[:length])


def test_a_stop_in_the_middle_of_a_call_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        decoded(CODEC, [BEGIN, *call(0, "t", "clock", "{")[:-1], *stop("tool_use")])


def test_a_thought_that_is_not_in_base64_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="base64"):
        decoded(CODEC, [BEGIN, delta(0, reasoningContent={"redactedContent": "x"})])


def test_the_input_of_the_services_own_tools_may_not_be_endless() -> None:
    use = {"toolUseId": "s", "name": "nova_grounding", "type": "server_tool_use"}
    begun = {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": use}}}
    with pytest.raises(ProtocolError, match="not JSON"):
        decoded(CODEC, [BEGIN, begun, delta(0, toolUse={"input": '{"a":' * 100_000}), ended(0)])


@pytest.mark.parametrize(
    ("reason", "ours", "words"),
    [
        ("end_turn", "end", 0),
        ("max_tokens", "max_tokens", 0),
        ("stop_sequence", "stop_sequence", 0),
        ("guardrail_intervened", "content_filter", 1),
        ("content_filtered", "content_filter", 0),
        ("model_context_window_exceeded", "max_tokens", 1),
        ("something_new", "end", 1),
    ],
)
def test_every_stop_reason_has_a_meaning(reason: str, ours: str, words: int) -> None:
    events = decoded(CODEC, [BEGIN, delta(0, text="Hm."), ended(0), *stop(reason)])
    assert (end_of(events).stop, len(notices_of(events))) == (ours, words)


@pytest.mark.parametrize("reason", ["malformed_tool_use", "malformed_model_output"])
def test_a_reply_that_bedrock_could_not_read_is_an_error_with_words(reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decoded(CODEC, [BEGIN, *stop(reason)])


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"throttlingException": {"message": "slow"}}, RateLimited),
        ({"serviceUnavailableException": {"message": "slow"}}, ModelUnavailable),
        ({"validationException": {"message": "slow"}}, RequestRefused),
        ({"hello": {"message": "slow"}}, ProtocolError),
    ],
)
def test_an_error_in_the_stream_is_raised_as_what_it_is(event: dict[str, Any], error: type[ModelError]) -> None:
    with pytest.raises(error):
        decoded(CODEC, [BEGIN, event])


def test_the_endless_words_of_an_error_are_shown_in_part() -> None:
    with pytest.raises(RateLimited) as caught:
        decoded(CODEC, [BEGIN, {"throttlingException": {"message": "slow " * 10_000}}])
    assert len(str(caught.value)) < 2000
