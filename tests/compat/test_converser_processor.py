"""The converser's processor: tools of ensembles found and run, and both providers' messages, there and back."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st

from handrail import Conversation, Ensemble, Policy, ToolCall, ToolResult, tool
from handrail.compat.converser.processor import Context, InvocationsProcessor
from handrail.core.calls import Problem
from handrail.core.errors import DuplicateTool, ToolError, UnknownTool, UsageError
from handrail.core.messages import (
    AssistantMessage,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.testing.ids import CountedIds

Provider = Literal["anthropic", "openai"]
PROVIDERS: list[Provider] = ["anthropic", "openai"]


@tool(schema={"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]})
async def get_weather(context: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The weather."""
    return {"location": arguments["location"], "units": context.auxdata.get("units")}


def processor(*more: Any) -> InvocationsProcessor:
    return InvocationsProcessor(ensembles=[Ensemble("weather", [get_weather]), *more], new_id=CountedIds())


INVOCATION = InvocationMessage(ToolCall("call_123", "get_weather", {"location": "San Francisco, CA"}))
RESULT = ResultMessage(ToolResult("call_123", "get_weather", '{"temp": 62, "conditions": "Partly cloudy"}'))
CONVERSATION = Conversation(
    (
        UserMessage((Text("What's the weather in SF?"),)),
        AssistantMessage("", stop="tool_calls"),
        INVOCATION,
        RESULT,
        AssistantMessage("The weather in San Francisco is 62°F and partly cloudy."),
    )
)


@pytest.mark.requirement("converser.processor")
def test_a_call_and_a_result_are_anthropics_blocks_as_the_document_shows() -> None:
    assert processor().nativize_invocation(INVOCATION, "anthropic") == {
        "type": "tool_use",
        "id": "call_123",
        "name": "get_weather",
        "input": {"location": "San Francisco, CA"},
    }
    assert processor().nativize_result(RESULT, "anthropic") == {
        "type": "tool_result",
        "tool_use_id": "call_123",
        "content": '{"temp": 62, "conditions": "Partly cloudy"}',
    }


@pytest.mark.requirement("converser.processor")
def test_a_call_and_a_result_are_openais_messages_as_the_document_shows() -> None:
    native = processor().nativize_invocation(INVOCATION, "openai")

    function = native["tool_calls"][0].pop("function")
    assert native == {"role": "assistant", "content": None, "tool_calls": [{"id": "call_123", "type": "function"}]}
    assert (function["name"], json.loads(function["arguments"])) == ("get_weather", {"location": "San Francisco, CA"})
    assert processor().nativize_result(RESULT, "openai") == {
        "role": "tool",
        "tool_call_id": "call_123",
        "content": '{"temp": 62, "conditions": "Partly cloudy"}',
    }


@pytest.mark.requirement("converser.processor")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_documents_conversation_goes_there_and_back(provider: Provider) -> None:
    native = processor().nativize(CONVERSATION, provider)

    assert processor().normalize(native, provider) == CONVERSATION.messages


@pytest.mark.requirement("converser.processor")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_supervisors_images_failures_and_several_calls_go_there_and_back(provider: Provider) -> None:
    failure = ToolResult(
        "2", "get_weather", "no such place", outcome="failed", error=Problem("failed", "no such place")
    )
    said: list[Message] = [
        SupervisorMessage("Be brief."),
        UserMessage((Text("And here?"), Media(media_type="image/png", data=b"\x89PNG"))),
        AssistantMessage("Two places.", stop="tool_calls"),
        InvocationMessage(ToolCall("1", "get_weather", {"location": "A"})),
        InvocationMessage(ToolCall("2", "get_weather", {"location": "B"})),
        ResultMessage(ToolResult("1", "get_weather", "fine")),
        ResultMessage(failure),
        AssistantMessage("One is fine."),
    ]

    back = processor().normalize(processor().nativize(said, provider), provider)

    if provider == "openai":  # its wire has no word for a failed result; the text says it
        said[6] = back[6]
        lost = back[6]
        assert isinstance(lost, ResultMessage)
        assert "no such place" in lost.result.text
    assert back == tuple(said)


@pytest.mark.requirement("converser.processor")
def test_a_bare_reply_is_read_as_a_call() -> None:
    block = {"type": "tool_use", "id": "call_123", "name": "get_weather", "input": {"location": "San Francisco, CA"}}
    function = {"name": "get_weather", "arguments": '{"location": "San Francisco, CA"}'}
    call = {"id": "call_123", "type": "function", "function": function}

    anthropic = processor().normalize({"role": "assistant", "content": [block]}, "anthropic")
    openai = processor().normalize({"role": "assistant", "content": None, "tool_calls": [call]}, "openai")

    assert anthropic == openai == (AssistantMessage("", stop="tool_calls"), INVOCATION)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_document_reaches_the_model_as_text_and_a_call_without_result_is_answered(provider: Provider) -> None:
    said = Conversation((DocumentMessage("notes.md", "# Notes"), AssistantMessage(stop="tool_calls"), INVOCATION))

    back = processor().normalize(processor().nativize(said, provider), provider)

    first = back[0]
    assert isinstance(first, UserMessage)
    assert "# Notes" in first.text
    assert [type(message) for message in back[-2:]] == [InvocationMessage, ResultMessage]


@pytest.mark.parametrize(
    "native",
    [
        {"role": "narrator", "content": "x"},
        {"role": "user", "content": [{"type": "hologram"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,%"}}]},
    ],
)
def test_what_is_no_message_is_refused(native: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        processor().normalize(native, "openai")


def test_a_provider_without_messages_here_is_refused() -> None:
    with pytest.raises(UsageError, match="anthropic"):
        processor().nativize([], "gemini")  # type: ignore[arg-type]  # the mistake


async def test_an_invoker_runs_through_the_executor_with_its_context() -> None:
    async with processor() as it:
        invoker = it.find_invoker("weather:get_weather")
        context = Context(auxdata={"units": "metric"}, invoker=invoker, namespace={})

        assert await invoker(context, {"location": "Oslo"}) == {"location": "Oslo", "units": "metric"}
        with pytest.raises(ToolError, match="location"):
            await invoker(context, {})
        assert (invoker.name, invoker.ensemble) == ("get_weather", "weather")
        assert invoker.arguments_schema["required"] == ["location"]


async def test_invocations_are_answered_in_their_order_errors_included() -> None:
    async with processor() as it:
        unknown = InvocationMessage(ToolCall("x", "nothing", {}))
        results = await it.execute_invocations([unknown, INVOCATION])

    assert [(each.invocation_id, each.result.outcome) for each in results] == [
        ("x", "unknown_tool"),
        ("call_123", "ok"),
    ]


async def test_a_program_and_the_executor_ask_one_deduplicator() -> None:
    async with InvocationsProcessor([Ensemble("w", [get_weather.changed(deduplicator="exact")])]) as it:
        invoker = it.find_invoker("get_weather")
        assert invoker.deduplicator is not None
        invoker.deduplicator.record("get_weather", {"location": "Oslo"})

        assert invoker.deduplicator.is_duplicate("get_weather", {"location": "Oslo"})
        assert it.find_invoker("get_weather").deduplicator is invoker.deduplicator


def test_names_are_found_or_refused_and_never_taken_by_order() -> None:
    with pytest.raises(UnknownTool, match="get_weather"):
        processor().find_invoker("get_wether")
    with pytest.raises(DuplicateTool):
        processor(Ensemble("other", [get_weather]))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_tools_are_prepared_for_a_provider(provider: Provider) -> None:
    [prepared] = processor().prepare_tools(provider)

    assert "get_weather" in json.dumps(prepared)


async def test_side_effects_need_a_confirmation_here_too() -> None:
    @tool(side_effects=True)
    def send() -> str:
        return "sent"

    call = InvocationMessage(ToolCall("1", "send", {}))
    async with InvocationsProcessor([Ensemble("mail", [send])]) as it:
        assert (await it.execute_invocations([call]))[0].result.outcome == "needs_confirmation"
    async with InvocationsProcessor([Ensemble("mail", [send])], policy=Policy(confirm_side_effects=False)) as it:
        assert (await it.execute_invocations([call]))[0].result.content == "sent"


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(str.strip)
ANSWERS = WORDS.map(str.rstrip)  # Anthropic refuses a conversation that ends in a space, so it is not sent
ROUNDS = st.lists(st.tuples(WORDS, st.lists(st.tuples(WORDS, WORDS), max_size=3), ANSWERS), min_size=1, max_size=3)


@pytest.mark.requirement("converser.processor")
@pytest.mark.parametrize("provider", PROVIDERS)
@given(rounds=ROUNDS)
def test_any_conversation_of_words_calls_and_results_goes_there_and_back(
    provider: Provider, rounds: list[tuple[str, list[tuple[str, str]], str]]
) -> None:
    said = Conversation()
    for number, (prompt, calls, answer) in enumerate(rounds):
        said = said.say(prompt)
        ids = [f"call_{number}_{index}" for index in range(len(calls))]
        if calls:
            made = [ToolCall(id, "get_weather", {"location": place}) for id, (place, _) in zip(ids, calls, strict=True)]
            said = said.add(AssistantMessage("", stop="tool_calls"), *map(InvocationMessage, made))
            done = [ToolResult(id, "get_weather", answer) for id, (_, answer) in zip(ids, calls, strict=True)]
            said = said.add(*map(ResultMessage, done))
        said = said.add(AssistantMessage(answer))

    assert processor().normalize(processor().nativize(said, provider), provider) == said.messages


@pytest.mark.requirement("converser.processor")
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("id", ["call_abc123", None])
def test_a_flat_call_is_read_with_its_id_or_is_given_one(provider: Provider, id: str | None) -> None:
    call = {"name": "get_weather", "arguments": {"location": "San Francisco, CA"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call if id is None else {"id": id, **call}]}

    said, invocation = processor().normalize(message, provider)

    assert said == AssistantMessage("", stop="tool_calls")
    assert isinstance(invocation, InvocationMessage)
    assert invocation.id == (id or "call_1")
    assert invocation.call.arguments == {"location": "San Francisco, CA"}


def test_a_flat_call_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a name"):
        processor().normalize({"role": "assistant", "tool_calls": [{"id": "1", "arguments": {}}]}, "openai")
