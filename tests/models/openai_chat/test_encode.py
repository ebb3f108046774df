"""What goes over the wire: every kind of message, choice and setting, judged by OpenAI's own types."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import UsageError
from handrail.core.messages import (
    Artefact,
    AssistantMessage,
    InvocationMessage,
    Media,
    ResultMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.profiles import Profile
from tests.models.openai_chat.conversation_fixtures import CONVERSATION, PLOT, PNG, TOOLS, WEATHER, request_with
from tests.models.openai_chat.sdk_checks import check_chat

CODEC = OpenAIChatCodec()


def body(
    request: ModelRequest, model: str = "gpt-4.1", *, server: str = "openai", stream: bool = True
) -> dict[str, Any]:
    return OpenAIChatCodec(server=server).encode(request, model, stream=stream).body


@pytest.mark.requirement("hearthnet.backends.native")
@pytest.mark.requirement("converser.processor")
def test_a_whole_conversation_becomes_messages_that_openai_takes() -> None:
    wire = CODEC.encode(ModelRequest(messages=CONVERSATION, tools=TOOLS), "gpt-4.1", stream=True)
    check_chat(wire.body)
    assert (wire.path, wire.framing) == ("/chat/completions", "sse")
    assert wire.body["messages"] == snapshot(
        [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {
                        "type": "text",
                        "text": """\
## Document: cities.txt

Lisbon, Oslo

Weather in the first, and plot it.\
""",
                    },
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORyBmYWtl"}},
                ],
            },
            {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city": "Lisbon"}'},
                    },
                    {
                        "id": "call_2",
                        "type": "function",
                        "function": {"name": "io_plot", "arguments": '{"points":[1,2.5]}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": '{"temp":21}'},
            {
                "role": "tool",
                "tool_call_id": "call_2",
                "content": """\
drawn
[plot.png, image/png: shown below]\
""",
            },
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "plot.png, from the result of io:plot:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORyBmYWtl"}},
                ],
            },
            {"role": "assistant", "content": "21 degrees."},
            {"role": "user", "content": "Thanks. And Oslo?"},
        ]
    )


def test_tools_are_sent_strict_where_the_service_can_hold_a_call_to_the_schema() -> None:
    assert body(request_with(tools=TOOLS))["tools"] == snapshot(
        [
            {
                "type": "function",
                "function": {
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
            },
            {
                "type": "function",
                "function": {
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
            },
        ]
    )
    [plain] = body(request_with(tools=(PLOT,)), "gpt-3.5-turbo")["tools"]
    assert "strict" not in plain["function"]


def test_a_schema_that_the_strict_subset_cannot_say_is_sent_whole_and_not_strict() -> None:
    odd = {"type": "object", "properties": {"a": {"type": "string", "not": {"const": "x"}}}, "required": ["a"]}
    offer = type(WEATHER)("odd", "Odd.", odd)
    [tool] = body(request_with(tools=(offer,)))["tools"]
    assert tool["function"]["parameters"]["properties"] == odd["properties"]
    assert "strict" not in tool["function"]


@pytest.mark.requirement("hearthnet.tool-choice")
@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("io:plot"), {"type": "function", "function": {"name": "io_plot"}}),
    ],
)
def test_every_choice_has_its_native_form(choice: ToolChoice, wire: Any) -> None:
    made = body(request_with(tools=TOOLS, tool_choice=choice))
    check_chat(made)
    assert made.get("tool_choice") == wire


@pytest.mark.requirement("hearthnet.tool-choice")
def test_a_server_without_named_choices_is_offered_only_that_tool_and_told_to_call() -> None:
    made = body(request_with(tools=TOOLS, tool_choice=NamedTool("get_weather")), server="lmstudio")
    assert made["tool_choice"] == "required"
    assert [tool["function"]["name"] for tool in made["tools"]] == ["get_weather"]


@pytest.mark.requirement("hearthnet.tool-choice")
def test_a_service_that_cannot_be_made_to_call_leaves_a_notice() -> None:
    wire = OpenAIChatCodec(server="kimi").encode(
        request_with(tools=TOOLS, tool_choice="required"), "kimi-k2", stream=True
    )
    assert "tool_choice" not in wire.body
    assert len(wire.notices) == 1


def test_a_choice_of_a_tool_that_is_not_offered_is_refused() -> None:
    with pytest.raises(UsageError):
        CODEC.encode(request_with(tools=(WEATHER,), tool_choice=NamedTool("io:plot")), "gpt-4.1", stream=True)


@pytest.mark.parametrize("tools", ["prompted", "none"])
def test_a_model_without_tools_is_sent_none_and_a_required_call_leaves_a_notice(tools: Any) -> None:
    codec = OpenAIChatCodec(profile=Profile(tools=tools))
    quiet = codec.encode(ModelRequest(messages=CONVERSATION, tools=TOOLS), "any", stream=True)
    assert "tools" not in quiet.body
    assert quiet.notices == ()
    assert {message["role"] for message in quiet.body["messages"]} == {"system", "user", "assistant"}
    assert codec.encode(request_with(tools=TOOLS, tool_choice="required"), "any", stream=True).notices


@pytest.mark.parametrize(
    ("server", "parallel", "flag"),
    [
        ("openai", True, None),
        ("openai", False, False),
        ("llamacpp", True, True),
        ("llamacpp", False, None),
        ("deepseek", False, None),
    ],
)
def test_several_calls_are_spoken_of_only_where_the_server_would_do_otherwise(
    server: str, parallel: bool, flag: bool | None
) -> None:
    assert body(request_with(tools=TOOLS, parallel=parallel), server=server).get("parallel_tool_calls") is flag


def test_settings_go_where_each_service_wants_them() -> None:
    request = request_with(max_tokens=9, temperature=0.5, top_p=0.9, stop=("END",), seed=7)
    assert body(request, stream=False) == snapshot(
        {
            "model": "gpt-4.1",
            "messages": [{"role": "user", "content": "Weather in Lisbon?"}],
            "max_completion_tokens": 9,
            "temperature": 0.5,
            "top_p": 0.9,
            "stop": ["END"],
            "seed": 7,
        }
    )
    assert body(request, "mistral-large-latest", server="mistral") == snapshot(
        {
            "model": "mistral-large-latest",
            "messages": [{"role": "user", "content": "Weather in Lisbon?"}],
            "max_tokens": 9,
            "temperature": 0.5,
            "top_p": 0.9,
            "stop": ["END"],
            "random_seed": 7,
            "stream": True,
        }
    )
    thinking = CODEC.encode(request, "gpt-5-mini", stream=True)
    assert thinking.body.keys() == {"model", "messages", "max_completion_tokens", "seed", "stream", "stream_options"}
    assert len(thinking.notices) == 3
    for made in (body(request, stream=False), thinking.body):
        check_chat(made)


def test_a_schema_of_the_reply_is_a_response_format_or_a_request_in_words() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    native = body(request_with(response_schema=schema))
    check_chat(native)
    assert native["response_format"] == snapshot(
        {
            "type": "json_schema",
            "json_schema": {
                "name": "reply",
                "schema": {
                    "type": "object",
                    "properties": {"n": {"type": "integer"}},
                    "required": ["n"],
                    "additionalProperties": False,
                },
                "strict": True,
            },
        }
    )
    wire = OpenAIChatCodec(server="deepseek").encode(
        request_with(response_schema=schema), "deepseek-chat", stream=False
    )
    assert wire.body["response_format"] == {"type": "json_object"}
    assert '"integer"' in wire.body["messages"][0]["content"]
    assert wire.notices


def test_what_only_one_service_has_goes_into_the_body_as_it_is() -> None:
    made = body(request_with(extra={"reasoning_effort": "low", "stream_options": {"include_obfuscation": False}}))
    assert made["reasoning_effort"] == "low"
    assert made["stream_options"] == {"include_usage": True, "include_obfuscation": False}


def test_files_and_images_go_to_models_that_take_them_and_are_described_to_others() -> None:
    pdf = Media(media_type="application/pdf", data=b"%PDF", name="a.pdf")
    page = Media(media_type="text/csv", data=b"a,b\n1,2", name="a.csv")
    far = Media(media_type="image/png", url="https://example.org/a.png")
    request = request_with(UserMessage((Text("Look."), pdf, page, far)))
    check_chat(body(request))
    assert body(request)["messages"] == snapshot(
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look."},
                    {
                        "type": "file",
                        "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
                    },
                    {
                        "type": "text",
                        "text": """\
a,b
1,2\
""",
                    },
                    {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                ],
            }
        ]
    )
    assert body(request, "nemotron-nano", server="vllm")["messages"] == snapshot(
        [
            {
                "role": "user",
                "content": """\
Look.

[a.pdf (application/pdf), 4 bytes, not shown: this service does not take it]

a,b
1,2

[image/png: https://example.org/a.png]\
""",
            }
        ]
    )


def test_images_of_results_are_told_to_a_model_that_cannot_be_shown_them() -> None:
    made = body(ModelRequest(messages=CONVERSATION[:-2], tools=TOOLS), "mistral-large-latest", server="mistral")
    last = made["messages"][-1]
    assert last["role"] == "tool"
    assert "plot.png" in last["content"] and f"{len(PNG)} bytes" in last["content"]


def test_what_a_model_is_not_shown_leaves_a_notice() -> None:
    request = ModelRequest(messages=CONVERSATION, tools=TOOLS)
    wire = OpenAIChatCodec(server="deepseek").encode(request, "deepseek-chat", stream=True)
    assert [text.partition(":")[0] for text in wire.notices] == ["map.png", "plot.png"]


def test_mistral_gets_ids_of_nine_letters_the_same_for_call_and_result() -> None:
    messages = body(ModelRequest(messages=CONVERSATION, tools=TOOLS), "mistral-large-latest", server="mistral")[
        "messages"
    ]
    made = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert made == answered == snapshot(["RksXkbv4v", "dTcG4HrQi"])
    assert all(len(id) == 9 and id.isalnum() for id in made)


THOUGHT = Artefact("openai_chat", {"reasoning": "Lisbon is warm."})
CALLED = (
    *request_with().messages,
    AssistantMessage("", artefacts=(THOUGHT,)),
    InvocationMessage(ToolCall("c", "get_weather", "{}")),
    ResultMessage(ToolResult("c", "get_weather", "21")),
    AssistantMessage("Warm.", artefacts=(THOUGHT,)),
    UserMessage((Text("Sure?"),)),
)


@pytest.mark.parametrize(
    ("server", "echoed"),
    [
        ("openai", []),
        ("groq", []),
        ("deepseek", ["Lisbon is warm.", "Lisbon is warm."]),
        ("kimi", ["Lisbon is warm.", "Lisbon is warm."]),
        ("zai", ["Lisbon is warm.", "Lisbon is warm."]),
    ],
)
def test_thoughts_go_back_to_the_services_that_want_them(server: str, echoed: list[str]) -> None:
    messages = body(ModelRequest(messages=CALLED, tools=TOOLS), server=server)["messages"]
    assert [message["reasoning_content"] for message in messages if "reasoning_content" in message] == echoed


def test_deepseek_gets_the_field_also_of_a_call_that_was_not_thought_about() -> None:
    unthought = tuple(
        AssistantMessage(message.text) if isinstance(message, AssistantMessage) else message for message in CALLED
    )
    messages = body(ModelRequest(messages=unthought, tools=TOOLS), server="deepseek")["messages"]
    assert [message.get("reasoning_content") for message in messages if message.get("tool_calls")] == [""]


SIGNED = {"google": {"thought_signature": "c2ln"}}
DETAILS = [{"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 0}]


def signed_history(service: str) -> ModelRequest:
    beside = Artefact("openai_chat", {"reasoning": "Hm.", "reasoning_details": DETAILS, "service": service})
    on_call = Artefact("openai_chat", {"extra_content": SIGNED, "service": service})
    messages = (
        *request_with().messages,
        AssistantMessage("", artefacts=(beside,)),
        InvocationMessage(ToolCall("c", "get_weather", "{}"), artefacts=(on_call,)),
        ResultMessage(ToolResult("c", "get_weather", "21")),
    )
    return ModelRequest(messages=messages, tools=TOOLS)


def test_what_a_service_signed_goes_back_to_it() -> None:
    reply = body(signed_history("openrouter"), server="openrouter")["messages"][1]
    assert reply["reasoning_details"] == DETAILS
    assert reply["tool_calls"][0]["extra_content"] == SIGNED


@pytest.mark.parametrize("server", ["openai", "deepseek", "kimi", "groq"])
def test_what_one_service_signed_goes_to_no_other(server: str) -> None:
    reply = body(signed_history("openrouter"), server=server)["messages"][1]
    assert not {"reasoning_details", "extra_content"} & {*reply, *reply["tool_calls"][0]}
    assert not reply.get("reasoning_content")


@pytest.mark.requirement("converser.processor")
def test_a_call_and_its_result_become_what_the_document_shows() -> None:
    arguments = {"location": "San Francisco, CA"}
    request = request_with(
        *request_with().messages,
        InvocationMessage(ToolCall("call_123", "get_weather", arguments)),
        ResultMessage(ToolResult("call_123", "get_weather", '{"temp": 62}')),
        tools=TOOLS,
    )
    assert body(request)["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_123",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"location":"San Francisco, CA"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_123", "content": '{"temp": 62}'},
    ]


@given(st.text(), st.text(), st.text(min_size=1))
def test_whatever_a_model_wrote_can_be_sent_back_to_it(arguments: str, content: str, name: str) -> None:
    call = InvocationMessage(ToolCall("c", name, arguments))
    check_chat(
        body(request_with(*request_with().messages, call, ResultMessage(ToolResult("c", name, content)), tools=TOOLS))
    )
