"""Requests to generateContent say all that was asked, in words that the google-genai package accepts."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from handrail.core.calls import Attachment, ToolCall, ToolResult
from handrail.core.messages import (
    AssistantMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import NamedTool, ToolChoice
from handrail.models.gemini import GeminiCodec
from handrail.models.gemini.encode import PLAIN
from tests.models.gemini.sdk_checks import accepts
from tests.models.gemini.test_decode import STREAM, reply
from tests.models.reply_rounds import CLOCK, SCHEMA, WEATHER, asked, calls_of, decoded, messages_of, numbered

CODEC = GeminiCodec()
PNG = b"\x89PNG"


def body(*messages: Message, codec: GeminiCodec = CODEC, **settings: Any) -> dict[str, Any]:
    written = codec.encode(asked(*messages, **settings), "gemini-x", stream=True).body
    assert accepts(written)
    return written


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def used(content: Any, *attachments: Attachment, **result: Any) -> tuple[Message, ...]:
    answer = ToolResult("c1", "clock", content, attachments=attachments, **result)
    return (user("?"), InvocationMessage(ToolCall("c1", "clock")), ResultMessage(answer))


def test_a_whole_conversation_is_written_in_geminis_words() -> None:
    written = body(
        SupervisorMessage("Be brief."),
        user("Weather in Lisbon?"),
        AssistantMessage("Let me see."),
        InvocationMessage(ToolCall("c1", "get_weather", '{"location": "Lisbon"}')),
        ResultMessage(ToolResult("c1", "get_weather", {"temperature": 21})),
        AssistantMessage("21 degrees."),
        user("Thanks."),
        tools=(WEATHER,),
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        seed=7,
        stop=("END",),
        response_schema=SCHEMA,
    )
    assert written == snapshot(
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Weather in Lisbon?"}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": "Let me see."},
                        {"functionCall": {"id": "c1", "name": "get_weather", "args": {"location": "Lisbon"}}},
                    ],
                },
                {
                    "role": "user",
                    "parts": [
                        {
                            "functionResponse": {
                                "id": "c1",
                                "name": "get_weather",
                                "response": {"output": {"temperature": 21}},
                            }
                        }
                    ],
                },
                {"role": "model", "parts": [{"text": "21 degrees."}]},
                {"role": "user", "parts": [{"text": "Thanks."}]},
            ],
            "tools": [
                {
                    "functionDeclarations": [
                        {
                            "name": "get_weather",
                            "description": "The weather now.",
                            "parametersJsonSchema": {
                                "type": "object",
                                "properties": {"location": {"type": "string"}},
                                "required": ["location"],
                                "additionalProperties": False,
                            },
                        }
                    ]
                }
            ],
            "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "generationConfig": {
                "maxOutputTokens": 100,
                "temperature": 0.5,
                "topP": 0.9,
                "seed": 7,
                "stopSequences": ["END"],
                "responseMimeType": "application/json",
                "responseJsonSchema": {
                    "type": "object",
                    "properties": {"location": {"type": "string"}},
                    "required": ["location"],
                    "additionalProperties": False,
                },
            },
        }
    )


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", {"mode": "AUTO"}),
        ("required", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        (NamedTool("clock"), {"mode": "ANY", "allowedFunctionNames": ["clock"]}),
    ],
)
@pytest.mark.requirement("hearthnet.tool-choice")
def test_every_choice_has_its_native_form(choice: ToolChoice, wire: dict[str, Any]) -> None:
    config = body(tools=(WEATHER, CLOCK), tool_choice=choice)["toolConfig"]
    assert config == {"functionCallingConfig": wire}


def test_strict_is_the_mode_validated() -> None:
    config = body(tools=(CLOCK,), codec=GeminiCodec(strict=True))["toolConfig"]
    assert config == {"functionCallingConfig": {"mode": "VALIDATED"}}


def test_one_call_at_a_time_cannot_be_asked_for_and_the_caller_is_told() -> None:
    assert len(CODEC.encode(asked(tools=(CLOCK,), parallel=False), "m", stream=True).notices) == 1


@pytest.mark.parametrize(
    ("model", "stream", "path"),
    [
        ("gemini-x", True, "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"),
        ("gemini-x", False, "/v1beta/models/gemini-x:generateContent"),
        ("tunedModels/mine", False, "/v1beta/tunedModels/mine:generateContent"),
    ],
)
def test_the_path_names_the_model_and_the_way_of_answering(model: str, stream: bool, path: str) -> None:
    wire = CODEC.encode(asked(), model, stream=stream)
    assert (wire.path, wire.framing) == (path, "sse" if stream else "json")


def test_a_reply_goes_back_with_every_signature_where_it_was() -> None:
    events = decoded(GeminiCodec(new_id=numbered()), STREAM)
    results = [ResultMessage(ToolResult(call.id, call.name, "ok")) for call in calls_of(events)]
    written = body(user("?"), *messages_of(events), *results, tools=(WEATHER, CLOCK))
    assert written["contents"][1]["parts"] == [
        {"text": "I will look."},
        {
            "functionCall": {"id": "call_1", "name": "get_weather", "args": {"location": "Lisbon"}},
            "thoughtSignature": "c2ln",
        },
        {"functionCall": {"id": "abc", "name": "clock", "args": {}}},
        {"text": "", "thoughtSignature": "ZW5k"},
    ]


def test_a_signed_text_is_not_joined_to_another() -> None:
    wire = [reply({"text": "One."}), reply({"text": "Two.", "thoughtSignature": "c2ln"}), reply({"text": "Three."})]
    events = decoded(CODEC, [*wire, reply(finish="STOP")])
    written = body(user("?"), *messages_of(events), user("!"))
    assert written["contents"][1]["parts"] == [
        {"text": "One."},
        {"text": "Two.", "thoughtSignature": "c2ln"},
        {"text": "Three."},
    ]


def test_a_signed_thought_and_the_services_own_parts_go_back_as_they_came() -> None:
    parts: list[dict[str, Any]] = [
        {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
        {"executableCode": {"language": "PYTHON", "code": "1+1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        {"text": "It is 2."},
    ]
    events = decoded(CODEC, [reply(*parts, finish="STOP")])
    assert body(user("?"), *messages_of(events), user("!"))["contents"][1]["parts"] == parts


@pytest.mark.parametrize(("signed", "value"), [(False, None), (True, "skip_thought_signature_validator")])
def test_a_call_of_another_model_gets_the_documented_signature_where_one_is_needed(
    signed: bool, value: str | None
) -> None:
    both = (InvocationMessage(ToolCall("a", "clock")), InvocationMessage(ToolCall("b", "clock")))
    written = body(user("?"), *both, tools=(CLOCK,), codec=GeminiCodec(profile=replace(PLAIN, signed_calls=signed)))
    assert [part.get("thoughtSignature") for part in written["contents"][1]["parts"]] == [value, None]


@pytest.mark.parametrize(
    ("content", "outcome", "response"),
    [
        ("12:00", "ok", {"output": "12:00"}),
        ({"hour": 12}, "ok", {"output": {"hour": 12}}),
        ([1, None], "ok", {"output": [1, None]}),
        ("no clock", "failed", {"error": "no clock"}),
        ({"a": [{"$ref": "#/$defs/b"}]}, "ok", {"output": '{"a":[{"$ref":"#/$defs/b"}]}'}),
    ],
)
def test_a_result_is_output_or_error(content: Any, outcome: str, response: dict[str, Any]) -> None:
    written = body(*used(content, outcome=outcome), tools=(CLOCK,))
    assert written["contents"][-1] == {
        "role": "user",
        "parts": [{"functionResponse": {"id": "c1", "name": "clock", "response": response}}],
    }


def test_media_go_inside_a_result_where_the_model_takes_them_there() -> None:
    scene = used("done", Attachment("plot.png", "image/png", PNG))
    inline = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
    assert body(*scene, tools=(CLOCK,))["contents"][-1]["parts"][0]["functionResponse"]["parts"] == [inline]
    beside = body(*scene, tools=(CLOCK,), codec=GeminiCodec(profile=replace(PLAIN, media_in_results=False)))[
        "contents"
    ][-1]["parts"]
    assert beside[1:] == [inline]


def test_users_may_send_media_and_are_told_what_is_not_taken() -> None:
    content = (
        Text("Look:"),
        Media(media_type="image/png", data=PNG),
        Media(media_type="video/mp4", url="https://x/y.mp4"),
        Media(media_type="application/json", data=b"{}"),
        Media(media_type="application/zip", data=b"PK", name="z.zip"),
    )
    wire = CODEC.encode(asked(UserMessage(content)), "m", stream=True)
    assert accepts(wire.body)
    assert wire.body["contents"][0]["parts"] == [
        {"text": "Look:"},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "https://x/y.mp4"}},
        {"text": "{}"},
        {"text": "[z.zip (application/zip), 2 bytes, not shown: this service does not take it]"},
    ]
    assert len(wire.notices) == 1


def test_the_callers_own_fields_join_the_body() -> None:
    thinking = {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 1024}}
    written = body(max_tokens=5, extra={"generationConfig": thinking})
    assert written["generationConfig"] == {"maxOutputTokens": 5, **thinking}


def test_without_tools_on_offer_past_calls_are_told_in_words() -> None:
    written = body(*used("12:00"))
    assert "tools" not in written and "toolConfig" not in written
    assert all(part.keys() == {"text"} for content in written["contents"] for part in content["parts"])
