"""Cohere's `/v2/chat`: what is sent, what recorded replies mean, and what goes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handrail.core.calls import Attachment, ToolCall, ToolResult
from handrail.core.errors import ModelUnavailable, ProtocolError, RateLimited, RequestRefused, UsageError
from handrail.core.events import CitationAdded, ModelEvent
from handrail.core.messages import (
    AssistantMessage,
    Citation,
    InvocationMessage,
    Media,
    ResultMessage,
    Text,
    Usage,
    UserMessage,
)
from handrail.core.model_request import NamedTool
from handrail.models.cohere import CohereCodec
from handrail.models.profiles import profile_for
from handrail.models.service_errors import error_for_status
from tests.models.cohere import wire_types
from tests.models.reply_rounds import (
    CLOCK,
    WEATHER,
    asked,
    calls_of,
    decoded,
    end_of,
    messages_of,
    notices_of,
    numbered,
    text_of,
    thoughts_of,
)

RECORDINGS = Path(__file__).parents[2] / "wires" / "recordings" / "cohere"
CODEC = CohereCodec(new_id=numbered())


def recorded(name: str) -> list[dict[str, Any]]:
    text = RECORDINGS.joinpath(name).read_text("utf-8")
    if name.endswith(".json"):
        return [json.loads(text)]
    lines = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {"))
    return [json.loads(line) for line in lines]


def body_of(**request: Any) -> dict[str, Any]:
    wire = CODEC.encode(asked(*request.pop("messages", ()), **request), "command-a-03-2025", stream=False)
    body: dict[str, Any] = json.loads(wire.text())
    assert wire_types.accepts(body)
    return body


def citations_of(events: list[ModelEvent]) -> list[Citation]:
    return [event.citation for event in events if isinstance(event, CitationAdded)]


REPLIES = sorted(
    path.name for path in RECORDINGS.iterdir() if not path.name.startswith("error-4") and "expected" not in path.name
)


@pytest.mark.parametrize("name", REPLIES)
def test_a_recorded_reply_has_the_shape_of_the_services_own_types(name: str) -> None:
    for data in recorded(name):
        assert wire_types.read_event(data) if name.endswith(".sse") else wire_types.read_reply(data)


@pytest.mark.parametrize("name", ["text.json", "text-stream.sse"])
def test_text_is_told_with_what_it_cost(name: str) -> None:
    events = decoded(CODEC, recorded(name))

    assert text_of(events) == "Lisbon is the capital of Portugal."
    assert end_of(events).stop == "end"
    assert end_of(events).usage == Usage(input_tokens=507, output_tokens=10, cached_tokens=448)


@pytest.mark.parametrize("name", ["calls.json", "calls-stream.sse"])
def test_parallel_calls_come_with_the_plan_that_led_to_them(name: str) -> None:
    events = decoded(CODEC, recorded(name))

    weather, clock = calls_of(events)
    assert (weather.name, json.loads(str(weather.arguments))) == ("get_weather", {"location": "Lisbon"})
    assert (clock.name, clock.arguments) == ("clock", "{}")
    assert thoughts_of(events).startswith("I will look up")
    assert end_of(events).stop == "tool_calls"


@pytest.mark.parametrize("name", ["calls.json", "calls-stream.sse", "thinking-call.json"])
def test_calls_go_back_with_their_plan_and_their_thoughts(name: str) -> None:
    events = decoded(CODEC, recorded(name))
    results = [ResultMessage(ToolResult(call.id, call.name, {"sky": "clear"})) for call in calls_of(events)]
    message = body_of(
        messages=(UserMessage((Text("Weather?"),)), *messages_of(events), *results), tools=(WEATHER, CLOCK)
    )["messages"][1]

    assert [call["id"] for call in message["tool_calls"]] == [call.id for call in calls_of(events)]
    if name == "thinking-call.json":
        assert message["content"] == recorded(name)[0]["message"]["content"]
    else:
        assert message["tool_plan"] == thoughts_of(events)


@pytest.mark.parametrize("name", ["thinking.json", "thinking-stream.sse"])
def test_thoughts_stand_before_the_text_and_go_back_there(name: str) -> None:
    events = decoded(CODEC, recorded(name))
    history = (UserMessage((Text("2 + 2?"),)), *messages_of(events), UserMessage((Text("And 3 + 3?"),)))

    assert (thoughts_of(events), text_of(events)) == ("Addition: two and two.", "2 + 2 = 4")
    assert body_of(messages=history)["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Addition: two and two."},
        {"type": "text", "text": "2 + 2 = 4"},
    ]


def test_citations_name_their_sources_and_the_words_that_these_support() -> None:
    events = decoded(CODEC, recorded("citations.json"))

    quote = "Order 17 left Porto on Monday."
    assert citations_of(events) == [
        Citation(title="orders.txt", quote=quote, start=8, end=13),
        Citation(title="get_weight_x0:0", quote="5", start=33, end=37),
    ]
    assert citations_of(decoded(CODEC, recorded("citations-stream.sse"))) == citations_of(events)[:1]
    assert [cited.start for cited in citations_of(decoded(CODEC, recorded("citation-without-type.json")))] == [13]


def test_a_citation_after_thoughts_counts_from_the_beginning_of_its_own_block() -> None:
    reply = recorded("thinking.json")[0]
    reply["message"]["citations"] = [{"start": 8, "end": 9, "text": "4", "content_index": 1, "type": "TEXT_CONTENT"}]
    assert citations_of(decoded(CODEC, [reply])) == [Citation(start=8, end=9)]


@pytest.mark.parametrize(
    ("cited", "place"),
    [
        ({"start": 3, "end": 8, "text": "Porto"}, (8, 13)),
        ({"start": 3, "end": 8, "text": "Faro"}, (None, None)),
        ({"start": 0, "end": 999}, (None, None)),
        ({"start": 0, "end": 2, "type": "PLAN"}, (None, None)),
    ],
)
def test_a_citation_whose_place_does_not_fit_is_looked_for_or_left_open(cited: dict[str, Any], place: Any) -> None:
    reply = recorded("citations.json")[0]
    reply["message"]["citations"] = [cited]
    (found,) = citations_of(decoded(CODEC, [reply]))
    assert (found.start, found.end) == place


def test_a_reply_that_the_service_breaks_off_is_an_error_in_its_words() -> None:
    with pytest.raises(ModelUnavailable, match="reported to our developers"):
        decoded(CODEC, recorded("error-stream.sse"))
    with pytest.raises(ProtocolError, match="broke off"):
        decoded(CODEC, recorded("cut-stream.sse"))


def test_refusals_say_what_the_service_said() -> None:
    kinds = {429: (RateLimited, "Trial key"), 400: (RequestRefused, "requires tools")}
    for status, (kind, words) in kinds.items():
        error = error_for_status(status, RECORDINGS.joinpath(f"error-{status}.json").read_bytes())
        assert isinstance(error, kind)
        assert words in str(error)


def test_a_reply_that_says_it_calls_and_calls_nothing_is_an_error() -> None:
    reply = recorded("text.json")[0] | {"finish_reason": "TOOL_CALL"}
    with pytest.raises(ProtocolError, match="no call in the reply"):
        decoded(CODEC, [reply])


def test_a_call_that_the_token_limit_cut_is_dropped_with_a_notice() -> None:
    reply = recorded("calls.json")[0] | {"finish_reason": "MAX_TOKENS"}
    reply["message"]["tool_calls"][1]["function"]["arguments"] = '{"loc'
    events = decoded(CODEC, [reply])
    assert [call.name for call in calls_of(events)] == ["get_weather"]
    assert end_of(events).stop == "max_tokens"
    assert any("dropped" in text for text in notices_of(events))

    stream = [*recorded("cut-stream.sse"), {"type": "message-end", "delta": {"finish_reason": "MAX_TOKENS"}}]
    assert calls_of(decoded(CODEC, stream)) == []


def test_a_block_or_an_event_of_a_kind_that_is_not_known_is_noticed_and_the_block_goes_back() -> None:
    block = {"type": "sketch", "lines": [1]}
    reply = recorded("text.json")[0]
    reply["message"]["content"].append(block)
    events = decoded(CODEC, [reply])
    said = CODEC.encode(asked(*asked().messages, *messages_of(events)), "command-a-03-2025", stream=False)

    assert any("'sketch'" in text for text in notices_of(events))
    assert block in said.body["messages"][1]["content"]
    first, *rest = recorded("text-stream.sse")
    events = decoded(CODEC, [first, {"type": "mood-start", "index": 0}, *rest])
    assert text_of(events) == "Lisbon is the capital of Portugal."
    assert any("'mood-start'" in text for text in notices_of(events))


def test_results_go_as_documents_so_that_they_can_be_cited() -> None:
    calls = tuple(ToolCall(f"c{number}", "get_weather", '{"location": "Lisbon"}') for number in range(4))
    image = Attachment("map.png", "image/png", b"png")
    results = (
        ToolResult("c0", "get_weather", {"sky": "clear", "wind": {"knots": 4}}),
        ToolResult("c1", "get_weather", ["clear"]),
        ToolResult("c2", "get_weather", "no such place", "failed"),
        ToolResult("c3", "get_weather", "clear", attachments=(image,)),
    )
    messages = (
        *asked().messages,
        AssistantMessage(""),
        *map(InvocationMessage, calls),
        *map(ResultMessage, results),
    )
    sent = body_of(messages=messages, tools=(WEATHER,))["messages"][2:]

    data = [message["content"][0]["document"]["data"] for message in sent]
    assert data[0] == {"sky": "clear", "wind": {"knots": 4}}
    assert data[1] == {"output": '["clear"]'}
    assert data[2] == {"error": "no such place"}
    assert "map.png" in sent[3]["content"][1]["text"]


def test_the_choice_among_tools_is_said_as_far_as_the_service_knows_it() -> None:
    assert "tool_choice" not in body_of(tools=(WEATHER, CLOCK))
    assert body_of(tools=(WEATHER, CLOCK), tool_choice="none")["tool_choice"] == "NONE"
    named = body_of(tools=(WEATHER, CLOCK), tool_choice=NamedTool("clock"))
    assert named["tool_choice"] == "REQUIRED"
    assert [tool["function"]["name"] for tool in named["tools"]] == ["clock"]


def test_settings_have_the_names_of_this_service() -> None:
    body = body_of(max_tokens=5, temperature=0.5, top_p=0.9, stop=("\n",), seed=7)
    wanted = {"max_tokens": 5, "temperature": 0.5, "p": 0.9, "stop_sequences": ["\n"], "seed": 7}
    assert body | wanted == body


def test_a_schema_of_the_reply_is_held_to_without_tools_and_asked_for_beside_them() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert body_of(response_schema=schema)["response_format"] == {"type": "json_object", "json_schema": schema}
    wire = CODEC.encode(asked(tools=(CLOCK,), response_schema=schema), "command-a-03-2025", stream=True)
    assert "response_format" not in wire.body
    assert "JSON Schema" in wire.body["messages"][0]["content"]
    assert any("schema" in notice for notice in wire.notices)


def test_tools_of_the_service_are_refused_since_it_has_none() -> None:
    with pytest.raises(UsageError, match="runs no tools itself"):
        CODEC.encode(asked(builtin_tools=({"type": "web_search"},)), "command-a-03-2025", stream=True)


def test_options_of_the_service_are_sent() -> None:
    wire = CohereCodec(strict=True, citations="off").encode(asked(tools=(WEATHER,)), "command-a-03-2025", stream=True)
    assert wire_types.accepts(wire.body)
    assert (wire.body["strict_tools"], wire.body["citation_options"]) == (True, {"mode": "OFF"})


def test_an_image_is_shown_to_a_model_that_sees_and_told_of_to_others() -> None:
    image = UserMessage((Text("What is it?"), Media(media_type="image/png", data=b"png", name="i.png")))
    seeing = CohereCodec(profile=profile_for("cohere", "command-a-vision-07-2025"))
    wire = seeing.encode(asked(image), "command-a-vision-07-2025", stream=False)
    assert wire_types.accepts(wire.body)
    assert wire.body["messages"][0]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert isinstance(body_of(messages=(image,))["messages"][0]["content"], str)
