"""Requests to Converse say all that was asked, in words that botocore's model of the service accepts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from inline_snapshot import snapshot

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
from handrail.models.bedrock import BedrockCodec
from handrail.models.profiles import profile_for
from tests.models.bedrock.botocore_checks import accepts
from tests.models.bedrock.streams import STREAM, WHOLE
from tests.models.reply_rounds import CLOCK, SCHEMA, WEATHER, asked, calls_of, decoded, messages_of

CODEC = BedrockCodec()
PNG = b"\x89PNG"


def body(*messages: Message, codec: BedrockCodec = CODEC, **settings: Any) -> dict[str, Any]:
    written = codec.encode(asked(*messages, **settings), "m", stream=True).body
    assert accepts(written)
    return written


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def used(content: Any, *attachments: Attachment, **result: Any) -> tuple[Message, ...]:
    answer = ToolResult("c1", "clock", content, attachments=attachments, **result)
    return (user("?"), InvocationMessage(ToolCall("c1", "clock")), ResultMessage(answer))


def test_a_whole_conversation_is_written_in_converses_words() -> None:
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
        stop=("END",),
        response_schema=SCHEMA,
    )
    assert written == snapshot(
        {
            "messages": [
                {"role": "user", "content": [{"text": "Weather in Lisbon?"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"text": "Let me see."},
                        {"toolUse": {"toolUseId": "c1", "name": "get_weather", "input": {"location": "Lisbon"}}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "toolResult": {
                                "toolUseId": "c1",
                                "content": [{"json": {"temperature": 21}}],
                                "status": "success",
                            }
                        }
                    ],
                },
                {"role": "assistant", "content": [{"text": "21 degrees."}]},
                {"role": "user", "content": [{"text": "Thanks."}]},
            ],
            "toolConfig": {
                "tools": [
                    {
                        "toolSpec": {
                            "name": "get_weather",
                            "inputSchema": {
                                "json": {
                                    "type": "object",
                                    "properties": {"location": {"type": "string"}},
                                    "required": ["location"],
                                    "additionalProperties": False,
                                }
                            },
                            "description": "The weather now.",
                        }
                    }
                ],
                "toolChoice": {"auto": {}},
            },
            "inferenceConfig": {"maxTokens": 100, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
            "outputConfig": {
                "textFormat": {
                    "type": "json_schema",
                    "structure": {
                        "jsonSchema": {
                            "schema": msgspec.json.encode(SCHEMA).decode(),
                            "name": "reply",
                        }
                    },
                }
            },
            "system": [{"text": "Be brief."}],
        }
    )


@pytest.mark.requirement("hearthnet.tool-choice")
@pytest.mark.parametrize(
    ("choice", "wire"),
    [("auto", {"auto": {}}), ("required", {"any": {}}), (NamedTool("clock"), {"tool": {"name": "clock"}})],
)
def test_every_choice_that_converse_has_is_said_natively(choice: ToolChoice, wire: dict[str, Any]) -> None:
    assert body(tools=(WEATHER, CLOCK), tool_choice=choice)["toolConfig"]["toolChoice"] == wire


@pytest.mark.requirement("hearthnet.tool-choice")
def test_without_a_choice_of_none_the_tools_are_left_out_and_the_past_told_in_words() -> None:
    wire = CODEC.encode(asked(*used("12:00"), tools=(CLOCK,), tool_choice="none"), "m", stream=True)
    assert accepts(wire.body)
    assert "toolConfig" not in wire.body
    assert all(part.keys() == {"text"} for message in wire.body["messages"] for part in message["content"])
    assert len(wire.notices) == 1


@pytest.mark.requirement("hearthnet.tool-choice")
def test_a_choice_that_the_model_cannot_be_held_to_is_noticed() -> None:
    codec = BedrockCodec(profile=profile_for("bedrock", "meta.llama4-x"))
    wire = codec.encode(asked(tools=(CLOCK,), tool_choice="required"), "meta.llama4-x", stream=True)
    assert wire.body["toolConfig"]["toolChoice"] == {"auto": {}}
    assert len(wire.notices) == 1


@pytest.mark.parametrize(
    ("stream", "path", "framing"),
    [(True, "/model/eu.a%3A0/converse-stream", "aws"), (False, "/model/eu.a%3A0/converse", "json")],
)
def test_the_path_names_the_model_and_the_way_of_answering(stream: bool, path: str, framing: str) -> None:
    wire = CODEC.encode(asked(), "eu.a:0", stream=stream)
    assert (wire.path, wire.framing) == (path, framing)


def test_a_reply_goes_back_as_it_came() -> None:
    events = decoded(CODEC, STREAM)
    results = [ResultMessage(ToolResult(call.id, call.name, "ok")) for call in calls_of(events)]
    written = body(user("?"), *messages_of(events), *results, tools=(WEATHER, CLOCK))
    assert written["messages"][1] == WHOLE["output"]["message"]


@pytest.mark.parametrize(
    ("content", "outcome", "block", "status"),
    [
        ("12:00", "ok", {"text": "12:00"}, "success"),
        ("", "ok", {"text": "(nothing)"}, "success"),
        ({"hour": 12}, "ok", {"json": {"hour": 12}}, "success"),
        ([12], "ok", {"text": "[12]"}, "success"),
        ("no clock", "failed", {"text": "no clock"}, "error"),
    ],
)
def test_a_result_says_what_came_of_it(content: Any, outcome: str, block: dict[str, Any], status: str) -> None:
    written = body(*used(content, outcome=outcome), tools=(CLOCK,))
    result = {"toolUseId": "c1", "content": [block], "status": status}
    assert written["messages"][-1] == {"role": "user", "content": [{"toolResult": result}]}


def test_images_and_documents_go_to_the_model_from_users_and_from_tools() -> None:
    looked = (
        Media(media_type="image/png", data=PNG),
        Media(media_type="application/pdf", data=b"%PDF", name="my/report_v2.pdf"),
        Media(media_type="video/mp4", url="s3://bucket/film.mp4"),
    )
    attached = (Attachment("plot.png", "image/png", PNG), Attachment("t.csv", "text/csv", b"a,b"))
    written = body(UserMessage(looked), *used("done", *attached)[1:], tools=(CLOCK,))
    assert [written["messages"][0], written["messages"][2]] == snapshot(
        [
            {
                "role": "user",
                "content": [
                    {"text": "(See the document.)"},
                    {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}},
                    {"document": {"format": "pdf", "name": "my report v2 pdf 2", "source": {"bytes": b"%PDF"}}},
                    {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://bucket/film.mp4"}}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "toolResult": {
                            "toolUseId": "c1",
                            "content": [
                                {"text": "done"},
                                {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}},
                                {"document": {"format": "csv", "name": "t csv 5", "source": {"bytes": b"a,b"}}},
                            ],
                            "status": "success",
                        }
                    }
                ],
            },
        ]
    )
    assert b"iVBORw==" in msgspec.json.encode(written)


def test_what_the_service_does_not_take_is_told_in_words_and_noticed() -> None:
    content = (Media(media_type="image/png", url="https://x/y.png"), Media(media_type="application/json", data=b"{}"))
    wire = CODEC.encode(asked(UserMessage(content), seed=1), "m", stream=True)
    assert accepts(wire.body)
    assert wire.body["messages"][0]["content"] == [{"text": "[image/png: https://x/y.png]"}, {"text": "{}"}]
    assert len(wire.notices) == 2


def test_the_cache_is_told_what_stays_the_same() -> None:
    written = body(SupervisorMessage("Be brief."), user("?"), tools=(CLOCK,), codec=BedrockCodec(cache=True))
    point = {"cachePoint": {"type": "default"}}
    assert written["system"][-1] == written["toolConfig"]["tools"][-1] == point


def test_tools_are_strict_when_asked() -> None:
    written = body(tools=(WEATHER,), codec=BedrockCodec(strict=True))
    assert written["toolConfig"]["tools"][0]["toolSpec"]["strict"] is True


def test_ids_and_names_of_other_services_are_made_to_fit() -> None:
    written = body(
        user("?"),
        InvocationMessage(ToolCall("x" * 70, "io:clock")),
        ResultMessage(ToolResult("x" * 70, "io:clock", "ok")),
        tools=(CLOCK,),
    )
    use = written["messages"][1]["content"][0]["toolUse"]
    result = written["messages"][2]["content"][0]["toolResult"]
    assert use["toolUseId"] == result["toolUseId"]
    assert use["name"] == "io_clock"


def test_the_callers_own_fields_join_the_body() -> None:
    extra = {"additionalModelRequestFields": {"thinking": {"type": "adaptive"}}, "inferenceConfig": {"topP": 0.5}}
    written = body(max_tokens=5, extra=extra)
    assert written["inferenceConfig"] == {"maxTokens": 5, "topP": 0.5}
    assert written["additionalModelRequestFields"] == {"thinking": {"type": "adaptive"}}
