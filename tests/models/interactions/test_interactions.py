"""Gemini's Interactions API: what is sent, what recorded replies mean, and what goes back."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from handrail.core.calls import Attachment, ToolCall, ToolResult
from handrail.core.errors import ProtocolError, RateLimited, RequestRefused
from handrail.core.events import CitationAdded, MediaAdded, ServiceCallMade
from handrail.core.messages import (
    AssistantMessage,
    Citation,
    InvocationMessage,
    Media,
    ResultMessage,
    ServiceCall,
    Text,
    Usage,
    UserMessage,
)
from handrail.core.model_request import NamedTool
from handrail.models.interactions import InteractionsCodec
from handrail.models.service_errors import error_for_status
from tests.models.interactions import sdk_checks
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

RECORDINGS = Path(__file__).parents[2] / "wires" / "recordings" / "gemini_interactions"
REPLIES = sorted(
    path.name for path in RECORDINGS.iterdir() if not path.name.startswith("error-4") and "expected" not in path.name
)
CODEC = InteractionsCodec(new_id=numbered())
QUESTION = UserMessage((Text("Weather?"),))


def recorded(name: str) -> list[dict[str, Any]]:
    text = RECORDINGS.joinpath(name).read_text("utf-8")
    if name.endswith(".json"):
        return [json.loads(text)]
    lines = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {"))
    return [json.loads(line) for line in lines]


def body_of(*messages: Any, **request: Any) -> dict[str, Any]:
    wire = CODEC.encode(asked(*messages, **request), "gemini-3-flash", stream=False)
    body: dict[str, Any] = json.loads(wire.text())
    assert sdk_checks.accepts(body)
    return body


@pytest.mark.parametrize("name", [name for name in REPLIES if name != "search-stream.sse"])  # it sends less there
def test_a_recorded_reply_has_the_shape_of_the_services_own_types(name: str) -> None:
    for data in recorded(name):
        assert sdk_checks.read_event(data) if name.endswith(".sse") else sdk_checks.read_reply(data)


@pytest.mark.parametrize(("name", "counted"), [("text.json", (95, 16)), ("text-stream.sse", (161, 19))])
def test_text_is_told_with_what_it_cost(name: str, counted: tuple[int, int]) -> None:
    events = decoded(CODEC, recorded(name))
    end = end_of(events)

    assert text_of(events) == "It is sunny in Lisbon."
    assert (end.stop, end.model) == ("end", "gemini-2.5-flash")
    assert (end.usage.input_tokens, end.usage.output_tokens) == counted


@pytest.mark.parametrize("name", ["calls.json", "calls-stream.sse"])
def test_parallel_calls_go_back_after_the_signed_thought_that_led_to_them(name: str) -> None:
    events = decoded(CODEC, recorded(name))
    weather, clock = calls_of(events)

    assert (weather.id, weather.name, json.loads(str(weather.arguments))) == (
        "zggxzq8r",
        "get_weather",
        {"location": "Lisbon"},
    )
    assert (clock.name, clock.arguments) == ("clock", "{}")
    assert end_of(events).stop == "tool_calls"
    results = [ResultMessage(ToolResult(call.id, call.name, "fine")) for call in (weather, clock)]
    steps = body_of(QUESTION, *messages_of(events), *results, tools=(WEATHER, CLOCK))["input"]
    whole = recorded("calls.json")[0]["steps"]
    assert steps[1:4] == whole
    assert [step["type"] for step in steps] == [
        "user_input",
        "thought",
        "function_call",
        "function_call",
        "function_result",
        "function_result",
    ]


@pytest.mark.parametrize("name", ["thoughts.json", "thoughts-stream.sse"])
def test_summaries_of_thoughts_are_told_and_go_back_with_their_signature(name: str) -> None:
    events = decoded(CODEC, recorded(name))
    history = (QUESTION, *messages_of(events), UserMessage((Text("And 3 + 3?"),)))
    steps = body_of(*history)["input"]

    assert (thoughts_of(events), text_of(events)) == ("**Adding**\n\nTwo and two.", "4")
    assert end_of(events).usage == Usage(input_tokens=8, output_tokens=60, reasoning_tokens=59)
    assert steps[1]["signature"] == recorded("thoughts.json")[0]["steps"][0]["signature"]
    assert "".join(part["text"] for part in steps[1]["summary"]) == "**Adding**\n\nTwo and two."


@pytest.mark.parametrize("name", ["search.json", "search-stream.sse"])
def test_a_search_of_the_service_is_shown_cited_by_characters_and_goes_back(name: str) -> None:
    events = decoded(CODEC, recorded(name))
    (cited,) = [event.citation for event in events if isinstance(event, CitationAdded)]
    (made,) = [event.call for event in events if isinstance(event, ServiceCallMade)]

    assert cited == Citation(url=cited.url, title="example.org", start=16, end=35)
    assert text_of(events)[cited.start : cited.end] == "It is in Barcelona."
    suggestions = recorded("search.json")[0]["steps"][3]["result"]
    assert made == ServiceCall(
        id="7xveqyd2", name="google_search", arguments={"queries": ["Sagrada Familia"]}, result=suggestions
    )
    assert calls_of(events) == []
    steps = body_of(QUESTION, *messages_of(events), QUESTION)["input"]
    assert [step["type"] for step in steps[1:5]] == [
        "thought",
        "model_output",
        "google_search_call",
        "google_search_result",
    ]
    assert steps[3:5] == recorded("search.json")[0]["steps"][2:4]
    assert end_of(events).usage.input_tokens == 22 + 198


@pytest.mark.parametrize("name", ["image.json", "image-stream.sse"])
def test_a_picture_that_the_model_made_is_given_out_and_goes_back(name: str) -> None:
    events = decoded(CODEC, recorded(name))
    (made,) = [event.media for event in events if isinstance(event, MediaAdded)]
    picture = recorded("image.json")[0]["steps"][1]["content"][1]

    assert made == Media(media_type="image/png", data=base64.b64decode(picture["data"]))
    steps = body_of(QUESTION, *messages_of(events), QUESTION)["input"]
    assert steps[3]["content"] == [picture]


def test_a_picture_that_cannot_be_read_is_a_notice_and_the_reply_goes_on() -> None:
    (reply,) = recorded("image.json")
    reply["steps"][1]["content"][1]["data"] = "kein Bäse64"
    events = decoded(CODEC, [reply])
    assert not [event for event in events if isinstance(event, MediaAdded)]
    assert any("image/png that is not in base64" in text for text in notices_of(events))


def test_a_reply_that_reached_its_limit_says_so_and_gives_out_no_half_call() -> None:
    assert end_of(decoded(CODEC, recorded("incomplete.json"))).stop == "max_tokens"
    events = decoded(CODEC, recorded("cut-call-stream.sse"))
    assert calls_of(events) == []
    assert any("dropped" in text for text in notices_of(events))


def test_a_reply_that_breaks_off_or_reports_an_error_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="broke off"):
        decoded(CODEC, recorded("broken-off-stream.sse"))
    with pytest.raises(RateLimited, match="exhausted"):
        decoded(CODEC, recorded("error-stream.sse"))
    failed = {"status": "failed", "object": "interaction", "errors": [{"code": "oops", "message": "it fell"}]}
    with pytest.raises(ProtocolError, match="it fell"):
        decoded(CODEC, [failed])
    with pytest.raises(ProtocolError, match="no call in its reply"):
        decoded(CODEC, [recorded("text.json")[0] | {"status": "requires_action"}])


def test_refusals_say_what_the_service_said() -> None:
    error = error_for_status(429, RECORDINGS.joinpath("error-429.json").read_bytes())
    assert isinstance(error, RateLimited)
    assert error.retry_after == 31
    error = error_for_status(400, RECORDINGS.joinpath("error-400.json").read_bytes())
    assert isinstance(error, RequestRefused)
    assert "invalid argument" in str(error)


def test_steps_and_events_of_a_kind_that_is_not_known_are_noticed_and_the_step_goes_back() -> None:
    step = {"type": "dream", "plot": ["a", "b"]}
    reply = recorded("calls.json")[0]
    reply["steps"].append(step)
    events = decoded(CODEC, [reply])
    sent = CODEC.encode(asked(QUESTION, *messages_of(events), tools=(WEATHER, CLOCK)), "gemini-3-flash", stream=False)

    assert len(calls_of(events)) == 2
    assert any("'dream'" in text for text in notices_of(events))
    assert step in sent.body["input"]
    first, *rest = recorded("text-stream.sse")
    events = decoded(CODEC, [first, {"event_type": "step.pause", "why": "tired"}, *rest])
    assert text_of(events) == "It is sunny in Lisbon."
    assert any("'step.pause'" in text for text in notices_of(events))


def test_nothing_is_stored_and_the_choice_has_the_words_of_this_wire() -> None:
    body = body_of(tools=(WEATHER, CLOCK), tool_choice=NamedTool("clock"), max_tokens=5, stop=("\n",), seed=7)
    assert body["store"] is False
    assert body["generation_config"] == {
        "max_output_tokens": 5,
        "seed": 7,
        "stop_sequences": ["\n"],
        "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["clock"]}},
    }
    assert body_of(tools=(CLOCK,), tool_choice="required")["generation_config"]["tool_choice"] == "any"


def test_tools_of_the_service_stand_beside_ones_own() -> None:
    body = body_of(tools=(CLOCK,), builtin_tools=({"type": "google_search"},))
    assert [tool["type"] for tool in body["tools"]] == ["function", "google_search"]


def test_results_say_whether_they_failed_and_may_hold_pictures() -> None:
    calls = (ToolCall("c0", "clock", "{}"), ToolCall("c1", "clock", "{}"))
    results = (
        ToolResult("c0", "clock", "it stopped", "failed"),
        ToolResult("c1", "clock", "12", attachments=(Attachment("c.png", "image/png", b"png"),)),
    )
    history = (QUESTION, AssistantMessage(""), *map(InvocationMessage, calls), *map(ResultMessage, results))
    failed, shown = body_of(*history, tools=(CLOCK,))["input"][3:]
    assert (failed["result"], failed["is_error"]) == ("it stopped", True)
    assert [part["type"] for part in shown["result"]] == ["text", "image"]


def test_a_schema_of_the_reply_is_a_format_of_text() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form = body_of(response_schema=schema)["response_format"]
    assert form == {"type": "text", "mime_type": "application/json", "schema": schema}
