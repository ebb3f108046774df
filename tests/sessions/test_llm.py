"""Asking a model once: text or calls, blocking and async, with tools in whatever form a program has them."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from handrail import Conversation, Ensemble, Session, ToolDefinition, create_llm, tool
from handrail.core.errors import DuplicateTool, InvalidDefinition, ModelError, ProtocolError, UsageError
from handrail.core.events import CallRequested, ModelEvent, Notice, ReplyFinished, TextDelta
from handrail.core.messages import Media, SupervisorMessage, Text, UserMessage
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice
from handrail.sessions.llm import LLM
from handrail.sessions.tool_forms import choice_of, definitions_of
from handrail.sessions.tool_requests import RequestedCall, ToolCallRequest
from handrail.testing.model import ScriptedModel, call, text
from tests.sessions.wire_replies import TEXTS, OneReply


def get_weather(location: str, unit: str = "celsius") -> str:
    """Get the current weather for a location."""
    raise NotImplementedError


DEFINITION = ToolDefinition.from_function(get_weather)


def test_a_reply_without_calls_is_its_text() -> None:
    with LLM(ScriptedModel([text("Good "), text("day.")])) as llm:
        assert llm.generate("Hello") == "Good day."


@pytest.mark.requirement("abstractllm.request")
def test_a_reply_with_calls_is_a_request_with_the_text_before_them() -> None:
    model = ScriptedModel([text("Let me see."), call("get_weather", "c1", location="Paris")])
    with LLM(model) as llm:
        reply = llm.generate("What's the weather in Paris?", tools=[get_weather])

    assert reply == ToolCallRequest("Let me see.", [RequestedCall("c1", "get_weather", {"location": "Paris"})])
    assert [offer.name for offer in model.requests[0].tools] == ["get_weather"]


@pytest.mark.requirement("abstractllm.create-llm")
async def test_the_blocking_form_works_inside_a_running_loop_as_the_async_one_does() -> None:
    with LLM(ScriptedModel([text("one")], [text("two")])) as llm:
        assert llm.generate("?") == "one"
        assert await llm.generate_async("?") == "two"


@pytest.mark.requirement("abstractllm.create-llm")
@pytest.mark.parametrize(
    "form",
    [
        get_weather,
        tool(get_weather),
        DEFINITION,
        Ensemble("weather", [get_weather]),
        {"type": "function", "function": {"name": "get_weather", "parameters": DEFINITION.input_schema}},
        {"name": "get_weather", "input_schema": DEFINITION.input_schema},
        {"functionDeclarations": [{"name": "get_weather", "parametersJsonSchema": DEFINITION.input_schema}]},
        {"toolSpec": {"name": "get_weather", "inputSchema": {"json": DEFINITION.input_schema}}},
    ],
    ids=["function", "tool", "definition", "ensemble", "openai", "anthropic", "gemini", "bedrock"],
)
def test_a_tool_may_come_in_any_form(form: Any) -> None:
    model = ScriptedModel([text("ok")])
    with LLM(model) as llm:
        llm.generate("?", tools=[form])

    [offer] = model.requests[0].tools
    assert (offer.name, offer.input_schema) == ("get_weather", DEFINITION.input_schema)


def test_what_is_no_tool_and_a_name_given_twice_are_refused() -> None:
    with pytest.raises(InvalidDefinition):
        definitions_of([42])
    with pytest.raises(DuplicateTool):
        definitions_of([get_weather, DEFINITION])


def test_prompt_system_prompt_and_settings_reach_the_model() -> None:
    model = ScriptedModel([text("ok")])
    picture = Media(media_type="image/png", data=b"x")
    with LLM(model, temperature=0.5, max_tokens=5) as llm:
        llm.generate(["What is this?", picture], system_prompt="Be brief.", tool_choice="get_weather", max_tokens=9)

    assert model.requests == [
        ModelRequest(
            messages=(SupervisorMessage("Be brief."), UserMessage((Text("What is this?"), picture))),
            tool_choice=NamedTool("get_weather"),
            temperature=0.5,
            max_tokens=9,
        )
    ]


def test_a_conversation_can_be_given_whole() -> None:
    model = ScriptedModel([text("ok")])
    said = Conversation().supervised("Be brief.").say("Hello")
    with LLM(model) as llm:
        llm.generate(said)

    assert model.requests[0].messages == said.messages


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="temperature"):
        LLM(ScriptedModel(), temprature=1)  # type: ignore[call-arg]  # the mistake


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("auto", "auto"),
        ("any", "required"),
        ("get_weather", NamedTool("get_weather")),
        ({"type": "function", "function": {"name": "f"}}, NamedTool("f")),
        ({"type": "tool", "name": "f"}, NamedTool("f")),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
    ],
)
def test_a_tool_choice_may_come_in_a_providers_form(given: Any, meant: ToolChoice) -> None:
    assert choice_of(given) == meant


def test_a_choice_that_means_nothing_is_refused() -> None:
    with pytest.raises(UsageError):
        choice_of({"kind": "auto"})


def test_a_stream_gives_the_events_in_order_and_what_the_model_raises() -> None:
    with LLM(ScriptedModel([text("a"), call("f", "1")])) as llm:
        events = list(llm.stream("?"))
        assert [type(event) for event in events] == [TextDelta, CallRequested, ReplyFinished]
        with pytest.raises(ModelError):
            list(llm.stream("the script has no more"))


class Endless:
    """Speaks until it is stopped, and says that it was."""

    name = "endless"

    def __init__(self) -> None:
        self.stopped = threading.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            async with asyncio.timeout(60):
                while True:
                    yield TextDelta(text="on and ")
                    await asyncio.sleep(0)
        finally:
            self.stopped.set()


def test_leaving_a_stream_ends_it() -> None:
    model = Endless()
    with LLM(model) as llm:
        events = llm.stream("?")
        assert next(events) == TextDelta(text="on and ")
        events.close()  # type: ignore[attr-defined]  # it is a generator

        assert model.stopped.is_set()


class Cut:
    name = "cut"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta(text="half a")


def test_a_reply_that_was_cut_off_is_an_error() -> None:
    with LLM(Cut()) as llm, pytest.raises(ProtocolError):
        llm.generate("?")


def test_a_blocking_call_in_its_own_loop_says_so_instead_of_waiting_for_ever() -> None:
    class Nested:
        name = "nested"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            llm.generate("from inside")
            yield ReplyFinished(stop="end")

    llm = LLM(Nested())
    with llm, pytest.raises(UsageError, match="await"):
        llm.generate("?")


def test_a_model_that_nobody_closed_leaves_no_thread_once_it_is_forgotten() -> None:
    before = set(threading.enumerate())
    llm = LLM(ScriptedModel([text("x")]))
    llm.generate("?")
    assert set(threading.enumerate()) > before

    del llm
    gc.collect()

    assert set(threading.enumerate()) <= before


@pytest.mark.requirement("hearthnet.backends.others")
def test_a_model_without_tools_ignores_them_and_a_notice_says_that_required_has_no_effect() -> None:
    service = OneReply(TEXTS["chat"])
    with create_llm("compatible:m", base_url="http://nowhere", tools="none", transport=service, stream=False) as llm:
        events = list(llm.stream("?", tools=[get_weather], tool_choice="required"))
        assert llm.generate("?", tools=[get_weather], tool_choice="required") == "Hello"

    assert isinstance(events[0], Notice)
    assert events[0].text == "this model takes no tools; tool_choice 'required' has no effect"
    assert [type(event) for event in events[1:]] == [TextDelta, ReplyFinished]
    assert not {"tools", "tool_choice"} & service.requests[0].body.keys()


@pytest.mark.requirement("hearthnet.backends.others")
def test_a_session_with_a_model_without_tools_answers_and_hears_the_notice() -> None:
    service = OneReply(TEXTS["chat"])
    llm = create_llm("compatible:m", base_url="http://nowhere", tools="none", transport=service, stream=False)
    with llm, Session(llm, tools=[get_weather]) as session:
        events = list(session.stream("?", tool_choice="required"))

    assert [event.text for event in events if isinstance(event, Notice)] == [
        "this model takes no tools; tool_choice 'required' has no effect"
    ]
    assert session.conversation.text == "Hello"


def test_required_without_any_tool_is_answered_with_a_notice() -> None:
    service = OneReply(TEXTS["chat"])
    with create_llm("compatible:m", base_url="http://nowhere", transport=service, stream=False) as llm:
        events = list(llm.stream("?", tool_choice="required"))

    assert [event.text for event in events if isinstance(event, Notice)] == [
        "no tools are offered; tool_choice 'required' has no effect"
    ]
