"""The programs of abstractllm-tool-system.md, import lines aside.

`create_llm` is given a transport, since the document's services are not there; the
programs themselves are the document's.
"""

from __future__ import annotations

from typing import Any

import pytest

import handrail
from handrail import ToolDefinition
from handrail.compat.abstractllm import Session
from handrail.core.errors import ToolError
from handrail.sessions import create
from handrail.sessions.conversion import convert_to_openai_tools
from handrail.sessions.llm import LLM
from handrail.sessions.tool_requests import RequestedCall as ToolCall, ToolCallRequest, execute_tools
from handrail.sync import execute_tool_securely
from handrail.testing.model import ScriptedModel, call, text
from tests.holding import output_of
from tests.sessions.wire_replies import CALLS, OneReply

REPLIES = {"openai": "chat", "anthropic": "anthropic", "gemini": "gemini", "ollama": "ollama"}


def create_llm(provider: str, **options: Any) -> LLM:
    """The document's call, with a service that always asks for the weather in Paris."""
    reply = OneReply(CALLS[REPLIES[provider]])
    return create.create_llm(provider, key="k", transport=reply, stream=False, **options)


# Define a function to use as a tool
def get_weather(location: str, unit: str = "celsius") -> str:
    """Get the current weather for a location."""
    # Implementation...
    return f"The weather in {location} is sunny and 25°{unit}"


def get_time(location: str) -> str:
    """Get the time at a location."""
    return f"It is noon in {location}"


@pytest.mark.requirement("abstractllm.create-llm")
def test_using_functions_as_tools() -> None:
    # Use the function as a tool
    llm = create_llm("openai", model="gpt-4")
    response = llm.generate("What's the weather in Paris?", tools=[get_weather])

    assert isinstance(response, ToolCallRequest)
    response.execute_tool_calls({"get_weather": get_weather})
    assert response.tool_calls[0].result == "The weather in Paris is sunny and 25°celsius"


@pytest.mark.requirement("abstractllm.create-llm")
def test_using_a_tool_definition() -> None:
    # Define a tool explicitly
    weather_tool = ToolDefinition(
        name="get_weather",
        description="Get the current weather for a location",
        input_schema={
            "type": "object",
            "properties": {
                "location": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["location"],
        },
    )

    # Use the tool definition
    llm = create_llm("anthropic", model="claude-3-opus-20240229")
    response = llm.generate("What's the weather in Paris?", tools=[weather_tool])

    assert isinstance(response, ToolCallRequest)
    assert [(each.id, each.name, each.arguments) for each in response.tool_calls] == [
        ("c1", "get_weather", {"location": "Paris"})
    ]


@pytest.mark.requirement("abstractllm.session")
def test_handling_tool_calls_in_sessions() -> None:
    llm = LLM(
        ScriptedModel(
            [call("get_weather", location="Paris"), call("get_time", location="Paris")],
            [text("Sunny, 25°C, noon.")],
        )
    )

    # Create a session with tools
    session = Session(
        provider=llm,
        system_prompt="You are a helpful assistant that can use tools.",
        tools=[get_weather, get_time],
    )

    # Generate with tool execution
    response = session.generate_with_tools("What's the weather in Paris and what time is it there?")

    assert response.text == "Sunny, 25°C, noon."
    assert [result.content for result in response.results] == [
        "The weather in Paris is sunny and 25°celsius",
        "It is noon in Paris",
    ]
    session.close()
    llm.close()


@pytest.mark.requirement("abstractllm.request")
@pytest.mark.parametrize("kind", [ToolCall, handrail.ToolCall], ids=["AbstractLLM's call", "handrail.ToolCall"])
def test_a_request_made_by_hand_is_executed(kind: Any) -> None:
    request = ToolCallRequest(
        content="I will look.",
        tool_calls=[
            kind(id="call_0", name="get_weather", arguments={"location": "Rome", "unit": "fahrenheit"}),
            kind(id="call_1", name="get_mood", arguments={}),
        ],
    )

    request.execute_tool_calls({"get_weather": get_weather})

    assert [tool_call.result for tool_call in request.tool_calls] == [
        "The weather in Rome is sunny and 25°fahrenheit",
        "Tool 'get_mood' not found",
    ]


@pytest.mark.requirement("abstractllm.execute-tools")
def test_executing_tools_gives_results_and_leaves_them_on_the_calls() -> None:
    tool_calls = [ToolCall(id="a", name="get_time", arguments={"location": "Oslo"})]

    results = execute_tools(tool_calls, {"get_time": get_time})

    assert results == [{"tool_call_id": "a", "name": "get_time", "result": "It is noon in Oslo"}]
    assert tool_calls[0].result == "It is noon in Oslo"


@pytest.mark.requirement("abstractllm.conversion")
def test_converting_tools_of_all_three_kinds() -> None:
    definition = ToolDefinition.from_function(get_weather)
    native = convert_to_openai_tools([definition])[0]

    assert convert_to_openai_tools([native, get_time, definition.to_dict() | {"name": "again"}])[0] == native
    assert convert_to_openai_tools([get_weather]) == [native]
    assert (native["type"], native["function"]["name"]) == ("function", "get_weather")
    assert native["function"]["description"] == "Get the current weather for a location."
    assert native["function"]["parameters"]["required"] == ["location"]


@pytest.mark.requirement("abstractllm.output-limit")
def test_secure_execution_validates_and_limits() -> None:
    def talk(times: int) -> str:
        return "x" * times

    assert execute_tool_securely(talk, {"times": 3}) == "xxx"
    assert "[cut: " in execute_tool_securely(talk, {"times": 20_000}, max_output_size=1000)
    with pytest.raises(ToolError):
        execute_tool_securely(talk, {"times": "many"})


SECURELY = """
from handrail.compat.abstractllm import ToolExecutionError, execute_tool_securely
from tests import holding

try:
    execute_tool_securely(holding.{work}, {{}})
except ToolExecutionError as error:
    print(error)
"""


@pytest.mark.requirement("abstractllm.timeout")
@pytest.mark.parametrize("work", ["match", "multiply"])
def test_secure_execution_is_answered_after_the_documents_five_seconds(work: str) -> None:
    """The work takes hours, or for ever: that the program ends shows that it did not wait."""
    assert "timed out after 5 s and was stopped" in output_of(SECURELY.format(work=work))
