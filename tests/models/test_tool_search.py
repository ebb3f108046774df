"""A service's own search among tools: asked for in its words, read, sent back as it came, and never told to others."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from handrail import Conversation, Executor, Runner, Tool, create_llm
from handrail.core.calls import ToolResult
from handrail.core.messages import InvocationMessage, Message, ResultMessage
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.core.ports import SearchesTools
from handrail.models.anthropic import AnthropicCodec
from handrail.models.anthropic.tools import SEARCH
from handrail.models.bedrock import BedrockCodec
from handrail.models.codec import Codec
from handrail.models.gemini import GeminiCodec
from handrail.models.ollama import OllamaCodec
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.openai_responses import OpenAIResponsesCodec
from handrail.models.profiles import profile_for
from handrail.run.offering import Offering
from tests.models.anthropic import sdk_checks
from tests.models.anthropic.streams import block, call, start, stop, text
from tests.models.openai_chat.sdk_checks import check_responses
from tests.models.openai_responses.streams import message, response, stream
from tests.models.raw_reply_server import serving, sse, whole
from tests.models.reply_rounds import CLOCK, SCHEMA, WEATHER, asked, calls_of, decoded, end_of, messages_of

CLAUDE, GPT = "claude-opus-4-5", "gpt-5.4"
HIDDEN = replace(CLOCK, deferred=True)
TOOLS = (WEATHER, HIDDEN)
ANTHROPIC = AnthropicCodec(profile=profile_for("anthropic", CLAUDE))
RESPONSES = OpenAIResponsesCodec()

# ── Anthropic ──

USED = {"type": "server_tool_use", "id": "srv_1", "name": "tool_search_tool_bm25", "input": {"query": "time now"}}
FOUND = {
    "type": "tool_search_tool_result",
    "tool_use_id": "srv_1",
    "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "clock"}],
    },
}
FAILED = {**FOUND, "content": {"type": "tool_search_tool_result_error", "error_code": "unavailable"}}
ANTHROPIC_REPLY = [
    start(),
    *text(0, "Let me see."),
    *block(1, {**USED, "input": {}}, {"type": "input_json_delta", "partial_json": '{"query": "ti'},
           {"type": "input_json_delta", "partial_json": 'me now"}'}),
    *block(2, FOUND),
    *call(3, "toolu_1", "clock", "{}"),
    *stop("tool_use"),
]  # fmt: skip


def claude(request: ModelRequest, codec: AnthropicCodec = ANTHROPIC) -> dict[str, Any]:
    body = codec.encode(request, CLAUDE, stream=True).body
    sdk_checks.accepts(body)
    return body


def answered(said: list[Message]) -> list[Message]:
    """What a reply made of the conversation, and the results of its calls."""
    calls = [each.call for each in said if isinstance(each, InvocationMessage)]
    return [*said, *(ResultMessage(ToolResult(each.id, each.name, "noon")) for each in calls)]


def test_claude_is_sent_deferred_tools_and_the_search_without_a_beta() -> None:
    wire = ANTHROPIC.encode(asked(tools=TOOLS), CLAUDE, stream=True)

    assert sdk_checks.accepts(wire.body)
    assert [tool.get("defer_loading") for tool in wire.body["tools"]] == [None, True, None]
    assert wire.body["tools"][-1] == {
        "type": "tool_search_tool_bm25_20251119",
        "name": "tool_search_tool_bm25",
    }
    assert "anthropic-beta" not in wire.headers


def test_without_deferred_tools_claude_is_sent_no_search() -> None:
    assert len(claude(asked(tools=(WEATHER, CLOCK)))["tools"]) == 2


def test_the_mark_for_the_cache_is_never_on_a_deferred_tool() -> None:
    body = claude(asked(tools=TOOLS), AnthropicCodec(profile=ANTHROPIC.profile, cache=True))

    assert [("cache_control" in tool, tool.get("defer_loading", False)) for tool in body["tools"]] == [
        (False, False),
        (False, True),
        (True, False),
    ]


@pytest.mark.parametrize("streamed", [True, False])
def test_claudes_search_goes_back_as_it_came_and_where_it_stood(streamed: bool) -> None:
    wire = ANTHROPIC_REPLY if streamed else [sdk_checks.accumulated(ANTHROPIC_REPLY).to_dict()]
    events = decoded(ANTHROPIC, wire, asked(tools=TOOLS))
    assert [each.name for each in calls_of(events)] == ["clock"]
    assert end_of(events).stop == "tool_calls"

    body = claude(asked(*asked().messages, *answered(messages_of(events)), tools=TOOLS))

    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "Let me see."},
        USED,
        FOUND,
        {"type": "tool_use", "id": "toolu_1", "name": "clock", "input": {}},
    ]


def test_a_search_that_failed_goes_back_too() -> None:
    wire = [start(), *block(0, USED), *block(1, FAILED), *text(2, "It is late."), *stop()]
    said = messages_of(decoded(ANTHROPIC, wire, asked(tools=TOOLS)))

    assert claude(asked(*asked().messages, *said, tools=TOOLS))["messages"][1]["content"][:2] == [USED, FAILED]


def test_a_past_search_is_not_sent_to_a_request_without_one_and_forgets_tools_that_are_gone() -> None:
    said = [*asked().messages, *answered(messages_of(decoded(ANTHROPIC, ANTHROPIC_REPLY, asked(tools=TOOLS))))]
    other = ToolOffer("other", "", SCHEMA, deferred=True)

    plain = claude(asked(*said, tools=(WEATHER, CLOCK)))["messages"][1]["content"]
    gone = claude(asked(*said, tools=(WEATHER, other)))["messages"][1]["content"]

    assert [each["type"] for each in plain] == ["text", "tool_use"]
    assert [each["type"] for each in gone] == ["text", "server_tool_use", "tool_search_tool_result", "tool_use"]
    assert gone[2]["content"]["tool_references"] == []


# ── OpenAI Responses ──

SEARCHED = {
    "id": "tsc_1",
    "type": "tool_search_call",
    "execution": "server",
    "call_id": None,
    "status": "completed",
    "arguments": {"paths": ["clock"]},
}
LOADED = {
    "id": "tso_1",
    "type": "tool_search_output",
    "execution": "server",
    "call_id": None,
    "status": "completed",
    "tools": [
        {
            "type": "function",
            "name": "clock",
            "description": "The time.",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
            "defer_loading": True,
        }
    ],
}
CALLED = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_a",
    "name": "clock",
    "namespace": "clock",
    "arguments": "{}",
}


def gpt(request: ModelRequest, model: str = GPT) -> dict[str, Any]:
    body = RESPONSES.encode(request, model, stream=True).body
    check_responses(body)
    return body


def kept(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if value is not None}


def test_gpt_is_sent_deferred_functions_and_the_search() -> None:
    tools = gpt(asked(tools=TOOLS))["tools"]

    assert [tool["type"] for tool in tools] == ["function", "function", "tool_search"]
    assert [tool.get("defer_loading") for tool in tools] == [None, True, None]
    assert len(gpt(asked(tools=(WEATHER, CLOCK)))["tools"]) == 2


@pytest.mark.parametrize("streamed", [True, False])
def test_gpts_search_goes_back_as_it_came_with_the_namespace_of_the_call(streamed: bool) -> None:
    output = (SEARCHED, LOADED, CALLED, message("Done."))
    wire = stream(*output) if streamed else [response(*output)]
    events = decoded(RESPONSES, wire, asked(tools=TOOLS))
    assert [each.name for each in calls_of(events)] == ["clock"]

    body = gpt(asked(*asked().messages, *answered(messages_of(events)), tools=TOOLS))

    assert body["input"][1:3] == [kept(SEARCHED), kept(LOADED)]
    called = next(item for item in body["input"] if item.get("type") == "function_call")
    assert called["namespace"] == "clock"


def test_gpts_past_search_is_not_sent_to_a_request_without_one() -> None:
    said = answered(messages_of(decoded(RESPONSES, stream(SEARCHED, LOADED, CALLED), asked(tools=TOOLS))))

    body = gpt(asked(*asked().messages, *said, tools=(WEATHER, CLOCK)))

    assert [item.get("type") for item in body["input"]] == [None, "function_call", "function_call_output"]
    assert "namespace" not in body["input"][1]


# ── everybody else ──

OTHERS: list[tuple[Codec, str]] = [
    (OpenAIChatCodec(), GPT),
    (GeminiCodec(), "gemini-2.5-flash"),
    (OllamaCodec(), "llama3.2"),
    (BedrockCodec(), "anthropic.claude-opus-4-5-v1:0"),
    (AnthropicCodec(), "claude-3-haiku"),
    (OpenAIResponsesCodec(), "gpt-5-mini"),
]


@pytest.mark.parametrize(("codec", "model"), OTHERS, ids=[codec.provider for codec, _ in OTHERS])
def test_a_wire_without_a_search_is_never_sent_deferred_tools(codec: Codec, model: str) -> None:
    with_hidden = codec.encode(asked(tools=TOOLS), model, stream=True).body
    without = codec.encode(asked(tools=(WEATHER,)), model, stream=True).body

    assert with_hidden == without


@pytest.mark.parametrize(
    ("name", "searches"),
    [
        ("anthropic:claude-opus-4-5", True),
        ("anthropic:claude-haiku-4-5-20251001", True),
        ("anthropic:claude-sonnet-5", True),
        ("anthropic:claude-sonnet-4-20250514", False),
        ("anthropic:claude-3-5-haiku-latest", False),
        ("openai-responses:gpt-5.4", True),
        ("openai-responses:gpt-5.10-mini", True),
        ("openai-responses:gpt-6-astra", True),
        ("openai-responses:gpt-5.1", False),
        ("openai-responses:gpt-5", False),
        ("openai:gpt-5.4", False),
        ("gemini:gemini-2.5-flash", False),
        ("ollama:llama3.2", False),
    ],
)
def test_which_models_search_is_a_fact_of_their_service_and_wire(name: str, searches: bool) -> None:
    model = create_llm(name, key="k" * 20).model

    assert isinstance(model, SearchesTools)
    assert model.searches_tools is searches


def test_calls_that_are_written_as_text_cannot_be_searched_for() -> None:
    model = create_llm(f"anthropic:{CLAUDE}", key="k" * 20, tools="prompted:hermes").model

    assert isinstance(model, SearchesTools)
    assert not model.searches_tools


# ── the whole way ──


async def tell(**arguments: Any) -> str:
    return "noon"


MANY = [Tool.from_function(tell, name=f"tool_{at}", description=f"Tells fact {at}.", schema=SCHEMA) for at in range(20)]
TIME = Tool.from_function(tell, name="clock", description="The time.", schema=CLOCK.input_schema)


async def test_a_runner_lets_claude_search_over_a_real_connection() -> None:
    done = [start(), *text(0, "Noon."), *stop()]
    async with serving(
        whole(sse(*ANTHROPIC_REPLY), kind="text/event-stream"), whole(sse(*done), kind="text/event-stream")
    ) as server:
        llm = create_llm(f"anthropic:{CLAUDE}", key="k" * 20, base_url=server.url)
        async with llm, Executor([*MANY, TIME]) as executor:
            runner = Runner(llm.model, executor, offering=Offering(most=8, found=2))
            ended = await runner.run(Conversation().say("fact 7, please"))

    assert ended.text == "Noon."
    first, second = (asked.json for asked in server.asked)
    assert sdk_checks.accepts(first)
    assert sdk_checks.accepts(second)
    assert len(first["tools"]) == 22
    shown = [tool["name"] for tool in first["tools"] if "defer_loading" not in tool]
    assert shown[0] == "tool_7"
    assert len(shown) == 3
    assert first["tools"][-1] == SEARCH
    assert "find_tools" not in [tool["name"] for tool in first["tools"]]
    assert second["tools"] == first["tools"]
    assert second["messages"][1]["content"][1:3] == [USED, FOUND]


async def test_a_runner_lets_gpt_search_over_a_real_connection() -> None:
    replies = [stream(SEARCHED, LOADED, CALLED), stream(message("Noon."))]
    async with serving(*(whole(sse(*each), kind="text/event-stream") for each in replies)) as server:
        llm = create_llm(f"openai-responses:{GPT}", key="k" * 20, base_url=server.url)
        async with llm, Executor([*MANY, TIME]) as executor:
            runner = Runner(llm.model, executor, offering=Offering(most=8, found=2))
            ended = await runner.run(Conversation().say("fact 7, please"))

    assert ended.text == "Noon."
    first, second = (asked.json for asked in server.asked)
    functions = [tool for tool in first["tools"] if tool["type"] == "function"]
    assert len(functions) == 21
    assert next(tool["name"] for tool in functions if "defer_loading" not in tool) == "tool_7"
    assert second["input"][1:3] == [kept(SEARCHED), kept(LOADED)]
