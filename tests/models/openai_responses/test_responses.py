"""The Responses wire both ways, judged by OpenAI's own types and accumulator."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from handrail.core.calls import Attachment, ToolCall, ToolResult
from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited
from handrail.core.events import CallRequested, ReplyFinished
from handrail.core.messages import Artefact, InvocationMessage, ResultMessage, Usage
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice
from handrail.models.openai_responses import OpenAIResponsesCodec
from tests.models.openai_chat.conversation_fixtures import (
    CONVERSATION,
    TOOLS,
    answered,
    check_survives,
    numbered,
    replied,
    request_with,
    wire_events,
)
from tests.models.openai_chat.sdk_checks import check_responses
from tests.models.openai_responses.streams import CALL, OUTPUTS, PLOT, REASONING, message, refusal, response, stream

EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def codec() -> OpenAIResponsesCodec:
    return OpenAIResponsesCodec(new_id=numbered())


def body(request: ModelRequest, model: str = "gpt-5-mini", *, streamed: bool = True) -> dict[str, Any]:
    made = codec().encode(request, model, stream=streamed).body
    check_responses(made)
    return made


# ── out ──


@pytest.mark.requirement("converser.processor")
def test_a_whole_conversation_becomes_items_that_openai_takes() -> None:
    made = body(ModelRequest(messages=CONVERSATION, tools=TOOLS))
    assert made == snapshot(
        {
            "model": "gpt-5-mini",
            "input": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "input_text",
                            "text": """\
## Document: cities.txt

Lisbon, Oslo

Weather in the first, and plot it.\
""",
                        },
                        {"type": "input_image", "image_url": "data:image/png;base64,iVBORyBmYWtl", "detail": "auto"},
                    ],
                },
                {"role": "assistant", "content": "Let me look."},
                {
                    "type": "function_call",
                    "call_id": "call_1",
                    "name": "get_weather",
                    "arguments": '{"city": "Lisbon"}',
                },
                {"type": "function_call", "call_id": "call_2", "name": "io_plot", "arguments": '{"points":[1,2.5]}'},
                {"type": "function_call_output", "call_id": "call_1", "output": '{"temp":21}'},
                {
                    "type": "function_call_output",
                    "call_id": "call_2",
                    "output": [
                        {"type": "input_text", "text": "drawn"},
                        {"type": "input_image", "image_url": "data:image/png;base64,iVBORyBmYWtl", "detail": "auto"},
                    ],
                },
                {"role": "assistant", "content": "21 degrees."},
                {"role": "user", "content": [{"type": "input_text", "text": "Thanks. And Oslo?"}]},
            ],
            "instructions": "Be brief.",
            "tools": [
                {
                    "type": "function",
                    "name": "get_weather",
                    "description": "The weather in a city.",
                    "parameters": {
                        "type": "object",
                        "properties": {
                            "city": {"type": "string"},
                            "unit": {"type": ["string", "null"], "enum": ["c", "f", None]},
                        },
                        "required": ["city", "unit"],
                        "additionalProperties": False,
                    },
                    "strict": True,
                },
                {
                    "type": "function",
                    "name": "io_plot",
                    "description": "Draw a line.",
                    "parameters": {
                        "type": "object",
                        "properties": {"points": {"type": "array", "items": {"type": "number"}}},
                        "required": ["points"],
                        "additionalProperties": False,
                    },
                    "strict": True,
                },
            ],
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "stream": True,
        }
    )


@pytest.mark.requirement("hearthnet.tool-choice")
@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("io:plot"), {"type": "function", "name": "io_plot"}),
    ],
)
def test_every_choice_has_its_native_form(choice: ToolChoice, wire: Any) -> None:
    made = body(request_with(tools=TOOLS, tool_choice=choice, parallel=False))
    assert made.get("tool_choice") == wire
    assert made["parallel_tool_calls"] is False


def test_settings_have_their_own_names_and_what_the_wire_lacks_leaves_a_notice() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    request = request_with(max_tokens=9, temperature=0.5, stop=("END",), seed=7, response_schema=schema)
    wire = codec().encode(request, "gpt-4.1", stream=False)
    check_responses(wire.body)
    assert wire.body == snapshot(
        {
            "model": "gpt-4.1",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "Weather in Lisbon?"}]}],
            "max_output_tokens": 9,
            "temperature": 0.5,
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "reply",
                    "schema": {
                        "type": "object",
                        "properties": {"n": {"type": "integer"}},
                        "required": ["n"],
                        "additionalProperties": False,
                    },
                    "strict": True,
                }
            },
            "store": False,
        }
    )
    assert wire.notices == snapshot(
        ("this model does not take stop; it is not sent", "this model does not take seed; it is not sent")
    )


def test_files_of_results_go_along_and_others_are_described() -> None:
    files = (Attachment("a.pdf", "application/pdf", b"%PDF"), Attachment("a.bin", "application/x-bin", b"123"))
    call = InvocationMessage(ToolCall("c", "io:plot", {}))
    result = ResultMessage(ToolResult("c", "io:plot", "two files", attachments=files))
    made = body(request_with(*request_with().messages, call, result, tools=TOOLS))
    assert made["input"][-1]["output"] == snapshot(
        [
            {"type": "input_text", "text": "two files"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            {
                "type": "input_text",
                "text": "[a.bin (application/x-bin), 3 bytes, not shown: this service does not take it]",
            },
        ]
    )


@given(st.text(), st.text(), st.text(min_size=1))
def test_whatever_a_model_wrote_can_be_sent_back_to_it(arguments: str, content: str, name: str) -> None:
    call = InvocationMessage(ToolCall("c", name, arguments))
    body(request_with(*request_with().messages, call, ResultMessage(ToolResult("c", name, content)), tools=TOOLS))


# ── back ──


@pytest.mark.parametrize("name", sorted(OUTPUTS.keys() - {"refusal"}))  # theirs gathers no refusals
def test_a_stream_decodes_to_what_openais_own_accumulator_makes_of_it(name: str) -> None:
    events = stream(*OUTPUTS[name])
    reply = replied(codec(), events)
    theirs: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in events[:-1]:  # the last repeats the whole, and would be taken instead of what was gathered
        theirs.handle_event(EVENTS.validate_python(event))
    gathered = list(theirs._output_items.values())
    calls = [item for item in gathered if item.type == "function_call"]
    assert [made.id for made in reply.calls] == [made.call_id for made in calls]
    assert [made.arguments for made in reply.calls] == [made.arguments or "{}" for made in calls]
    parts = [part for item in gathered if item.type == "message" for part in item.content]
    assert reply.text == "".join(part.text for part in parts if part.type == "output_text")


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_whole_response_decodes_to_the_same_as_its_stream(name: str) -> None:
    assert replied(codec(), [response(*OUTPUTS[name])]) == replied(codec(), stream(*OUTPUTS[name]))


def test_a_call_is_given_as_soon_as_it_is_whole() -> None:
    decoder = codec().decoder(request_with(tools=TOOLS))
    seen = [given for event in stream(CALL, PLOT) for given in decoder.feed(event) if event.get("output_index") == 0]
    assert isinstance(seen[-1], CallRequested)


def test_a_reply_ends_with_its_usage_its_model_and_why() -> None:
    assert replied(codec(), stream(REASONING, CALL)).end == snapshot(
        ReplyFinished(
            stop="tool_calls",
            model="gpt-5-mini-2025-08-07",
            usage=Usage(
                input_tokens=100,
                output_tokens=20,
                cached_tokens=64,
                cache_written_tokens=0,
                reasoning_tokens=5,
                cost=None,
            ),
            artefacts=(
                Artefact(
                    provider="openai_responses",
                    data={"block": {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}},
                ),
            ),
        )
    )
    assert replied(codec(), stream(message("x"))).end.stop == "end"
    assert replied(codec(), stream(refusal("no"))).end.stop == "refusal"


def test_thoughts_and_phases_go_back_to_the_place_where_they_stood() -> None:
    later = {**REASONING, "id": "rs_2"}
    reply = replied(codec(), stream(REASONING, message("First.", phase="commentary"), CALL, later, PLOT))
    going_on = answered(reply, *(ToolResult(made.id, made.name, "done") for made in reply.calls))
    made = body(ModelRequest(messages=going_on.messages, tools=TOOLS))
    assert made["input"][1:] == [
        REASONING,
        {"role": "assistant", "content": "First.", "phase": "commentary"},
        {key: CALL[key] for key in ("type", "call_id", "name", "arguments")},
        later,
        {key: PLOT[key] for key in ("type", "call_id", "name", "arguments")},
        {"type": "function_call_output", "call_id": "call_a", "output": "done"},
        {"type": "function_call_output", "call_id": "call_b", "output": "done"},
    ]


def test_thoughts_are_shown_as_they_come() -> None:
    event = {"type": "response.reasoning_summary_text.delta", "delta": "Hm.", "output_index": 0}
    assert replied(codec(), [event, *stream(REASONING, CALL)]).thoughts == "Hm."


def test_calls_that_a_server_did_not_end_or_stream_are_taken_from_the_whole_once() -> None:
    events = [event for event in stream(CALL, PLOT) if event["type"] != "response.output_item.done"]
    assert [made.id for made in replied(codec(), events).calls] == ["call_a", "call_b"]
    first = [event for event in stream(CALL, PLOT) if event.get("output_index") != 1]
    assert [made.id for made in replied(codec(), first).calls] == ["call_a", "call_b"]


def test_a_call_is_not_made_twice_when_the_stream_counts_items_that_it_does_not_show() -> None:
    events = [{**event, "output_index": 7} if "output_index" in event else event for event in stream(CALL)]
    assert [made.id for made in replied(codec(), events).calls] == ["call_a"]


# ── what goes wrong ──


def test_a_stream_that_breaks_off_is_an_error() -> None:
    decoder = codec().decoder(request_with(tools=TOOLS))
    for event in stream(CALL)[:-3]:
        assert not any(isinstance(given, CallRequested) for given in decoder.feed(event))
    with pytest.raises(ProtocolError):
        list(decoder.finish())


def test_a_call_that_a_limit_cut_is_not_made() -> None:
    cut = {**CALL, "arguments": '{"city":"Li', "status": "incomplete"}
    why = {"reason": "max_output_tokens"}
    reply = replied(codec(), stream(cut, status="incomplete", incomplete_details=why))
    assert reply.calls == ()
    assert reply.end.stop == "max_tokens"
    assert len(reply.notices) == 1


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None}, RateLimited),
        ({"type": "error", "code": None, "message": "strange", "param": None}, ProtocolError),
        (
            {
                "type": "response.failed",
                "response": response(status="failed", error={"code": "server_error", "message": "oops"}),
            },
            ModelUnavailable,
        ),
        ({"type": "response.failed", "response": response(status="failed")}, ModelUnavailable),
    ],
)
def test_an_error_in_mid_stream_is_the_error_it_would_have_been(event: dict[str, Any], kind: type[ModelError]) -> None:
    decoder = codec().decoder(request_with())
    with pytest.raises(kind):
        list(decoder.feed(event))


KEYS = "type object response output item output_index delta call_id name arguments status error content summary code"


@given(wire_events(KEYS.split()))
def test_whatever_a_server_says_is_read_or_is_a_model_error(events: list[dict[str, Any]]) -> None:
    check_survives(codec(), events)


def test_thoughts_in_words_are_shown_and_go_back_also_without_a_stream() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    reply = replied(codec(), [response(thought, CALL)])
    assert reply.thoughts == "Hm."
    going_on = answered(reply, *(ToolResult(made.id, made.name, "3") for made in reply.calls))
    assert thought in body(ModelRequest(messages=going_on.messages, tools=TOOLS))["input"]


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_reply_that_is_still_to_come_is_an_error_and_not_an_empty_answer(status: str) -> None:
    with pytest.raises(ProtocolError, match=status):
        replied(codec(), [response(status=status)])


def test_an_event_that_nobody_knows_is_noticed_once_and_changes_nothing() -> None:
    events = stream(message("Hi."), CALL)
    new = {"type": "response.dream.delta", "delta": "zzz"}
    plain, woven = replied(codec(), events), replied(codec(), [event for each in events for event in (new, each)])
    assert (woven.text, woven.calls, woven.end) == (plain.text, plain.calls, plain.end)
    assert len(woven.notices) == len(plain.notices) + 1
