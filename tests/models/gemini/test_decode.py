"""Replies of generateContent come out as events, with the signatures that must go back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.calls import ToolCall
from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused
from handrail.core.events import CallRequested
from handrail.core.jsontext import parse_object
from handrail.core.messages import Artefact, Usage
from handrail.models.gemini import GeminiCodec
from handrail.models.gemini.partial_arguments import PartialArguments
from tests.models.gemini import sdk_checks
from tests.models.reply_rounds import calls_of, decoded, end_of, notices_of, numbered, text_of, thoughts_of


def codec() -> GeminiCodec:
    return GeminiCodec(new_id=numbered())


def reply(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **more}


COUNTS = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 5,
    "totalTokenCount": 125,
}
STREAM = [
    reply({"text": "Thinking it over.", "thought": True}),
    reply({"text": "I will "}, modelVersion="gemini-x"),
    reply({"text": "look."}),
    reply(
        {"functionCall": {"name": "get_weather", "args": {"location": "Lisbon"}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "clock", "id": "abc"}},
    ),
    reply({"text": "", "thoughtSignature": "ZW5k"}, finish="STOP", usageMetadata=COUNTS),
]


def test_the_last_report_of_tokens_counts_also_where_it_leaves_one_out() -> None:
    first = {"promptTokenCount": 9, "candidatesTokenCount": 21, "totalTokenCount": 30}
    last = {"promptTokenCount": 87, "thoughtsTokenCount": 78, "totalTokenCount": 165}
    events = decoded(codec(), [reply({"text": "a"}, usageMetadata=first), reply(finish="STOP", usageMetadata=last)])
    usage = end_of(events).usage
    assert (usage.input_tokens, usage.output_tokens) == (87, 78)


def test_a_stream_gives_text_thoughts_and_calls() -> None:
    events = decoded(codec(), STREAM)
    assert text_of(events) == "I will look." == sdk_checks.text(STREAM)
    assert thoughts_of(events) == "Thinking it over."
    assert calls_of(events) == [
        ToolCall("call_1", "get_weather", '{"location":"Lisbon"}'),
        ToolCall("abc", "clock", "{}"),
    ]
    assert end_of(events).stop == "tool_calls"
    assert end_of(events).model == "gemini-x"


def test_the_sdk_finds_the_same_calls() -> None:
    ours = [(call.name, parse_object(str(call.arguments)) or None) for call in calls_of(decoded(codec(), STREAM))]
    assert ours == sdk_checks.calls(STREAM)


def test_a_whole_reply_gives_what_its_stream_gives() -> None:
    parts = [part for event in STREAM for part in event["candidates"][0]["content"]["parts"]]
    whole = reply(*parts, finish="STOP", usageMetadata=COUNTS, modelVersion="gemini-x")
    assert decoded(codec(), [whole]) == decoded(codec(), STREAM)


def test_a_signature_stays_with_its_call() -> None:
    events = decoded(codec(), STREAM)
    signed = [event.artefacts for event in events if isinstance(event, CallRequested)]
    assert signed == [(Artefact("gemini", {"thoughtSignature": "c2ln"}),), ()]


def test_thoughts_count_as_output_and_the_cache_as_input() -> None:
    assert end_of(decoded(codec(), STREAM)).usage == Usage(
        input_tokens=100, output_tokens=25, cached_tokens=60, reasoning_tokens=5
    )


def partial(path: str, continues: bool = False, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value, **({"willContinue": True} if continues else {})}


def test_arguments_that_come_leaf_by_leaf_are_joined() -> None:
    wire = [
        reply({"functionCall": {"name": "get_weather", "willContinue": True}, "thoughtSignature": "c2ln"}),
        reply(
            {"functionCall": {"partialArgs": [partial("$.location", True, stringValue="Lis")], "willContinue": True}}
        ),
        reply({"functionCall": {"partialArgs": [partial("$.location", stringValue="bon")], "willContinue": True}}),
        reply({"functionCall": {"partialArgs": [partial("$.days[0].n", numberValue=3)], "willContinue": True}}),
        reply({"functionCall": {"partialArgs": [partial("$['a b']", boolValue=True)], "willContinue": True}}),
        reply({"functionCall": {}}),
        reply(finish="STOP"),
    ]
    (call,) = calls_of(decoded(codec(), wire))
    assert parse_object(str(call.arguments)) == {"location": "Lisbon", "days": [{"n": 3}], "a b": True}


def test_a_call_in_pieces_that_the_token_limit_cut_is_dropped() -> None:
    wire = [reply({"functionCall": {"name": "clock", "willContinue": True}}), reply(finish="MAX_TOKENS")]
    events = decoded(codec(), wire)
    assert calls_of(events) == []
    assert len(notices_of(events)) == 1
    with pytest.raises(ProtocolError):
        decoded(codec(), [wire[0], reply(finish="STOP")])


KEYS = st.text("abc_ '\"\\é.[", min_size=1, max_size=5)
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(KEYS, inner, min_size=1, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_arguments_come_back_from_their_leaves(arguments: dict[str, Any]) -> None:
    pieces = PartialArguments()
    for piece in leaves("$", arguments):
        pieces.add(piece)
    assert pieces.value() == arguments


def leaves(path: str, value: Any) -> list[dict[str, Any]]:
    match value:
        case dict():
            steps = [(f"{path}['{escaped(key)}']", item) for key, item in value.items()]
            return [leaf for place, item in steps for leaf in leaves(place, item)]
        case list():
            return [leaf for at, item in enumerate(value) for leaf in leaves(f"{path}[{at}]", item)]
        case None:
            return [partial(path, nullValue="NULL_VALUE")]
        case bool():
            return [partial(path, boolValue=value)]
        case int():
            return [partial(path, numberValue=value)]
    return [partial(path, True, stringValue=value[:2]), partial(path, stringValue=value[2:])]


def escaped(key: str) -> str:
    return key.replace("\\", "\\\\").replace("'", "\\'")


@pytest.mark.parametrize("path", ["location", "$", "$..x", "$[x]", "$[3]", "$.a[1]"])
def test_a_place_that_makes_no_sense_is_an_error(path: str) -> None:
    pieces = PartialArguments()
    pieces.add(partial(path, stringValue="x"))
    with pytest.raises(ProtocolError):
        pieces.value()


@pytest.mark.parametrize(
    "reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"]
)
def test_a_reply_that_gemini_could_not_read_is_an_error_with_words(reason: str) -> None:
    broken = reply(finish=reason)
    broken["candidates"][0]["finishMessage"] = "print(get_weather("
    with pytest.raises(ProtocolError, match=reason) as caught:
        decoded(codec(), [broken])
    assert "print(get_weather(" in str(caught.value)


@pytest.mark.parametrize(
    ("reason", "ours", "words"),
    [
        ("STOP", "end", 0),
        ("MAX_TOKENS", "max_tokens", 0),
        ("CONTINUATION", "max_tokens", 1),
        ("SAFETY", "content_filter", 1),
        ("RECITATION", "content_filter", 1),
        ("OTHER", "end", 1),
    ],
)
def test_every_finish_reason_has_a_meaning(reason: str, ours: str, words: int) -> None:
    events = decoded(codec(), [reply({"text": "Hm."}, finish=reason)])
    assert (end_of(events).stop, len(notices_of(events))) == (ours, words)


def test_a_blocked_prompt_is_filtered_content() -> None:
    events = decoded(codec(), [{"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}])
    assert end_of(events).stop == "content_filter"
    assert "SAFETY" in notices_of(events)[0]


@pytest.mark.parametrize("length", range(len(STREAM)))
def test_a_stream_without_a_finish_reason_is_an_error(length: int) -> None:
    with pytest.raises(ProtocolError):
        decoded(codec(), STREAM[:length])


@pytest.mark.parametrize(
    ("code", "error"),
    [(429, RateLimited), (503, ModelUnavailable), (400, RequestRefused), (None, ProtocolError)],
)
def test_an_error_in_the_stream_is_raised_as_what_it_is(code: int | None, error: type[ModelError]) -> None:
    with pytest.raises(error, match="no more"):
        decoded(codec(), [{"error": {"code": code, "message": "no more", "status": "X"}}])


def test_the_endless_words_of_an_error_are_shown_in_part() -> None:
    with pytest.raises(RateLimited) as caught:
        decoded(codec(), [{"error": {"code": 429, "message": "slow " * 10_000, "status": "X"}}])
    assert len(str(caught.value)) < 2000


def test_what_is_no_reply_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        decoded(codec(), [{"hello": "world"}])
