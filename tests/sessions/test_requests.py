"""A reply that wants tools, run as AbstractLLM's document shows."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import ToolCall, tool
from handrail.sessions.tool_requests import RequestedCall, ToolCallRequest, execute_tools


def get_weather(location: str, unit: str = "celsius") -> str:
    """Get the current weather for a location."""
    return f"The weather in {location} is sunny and 25°{unit}"


def broken() -> None:
    raise ValueError("kaput")


def request(*calls: RequestedCall) -> ToolCallRequest:
    return ToolCallRequest(content="Let me see.", tool_calls=list(calls))


@pytest.mark.requirement("abstractllm.request")
def test_each_result_is_left_on_its_call_and_errors_have_the_documented_texts() -> None:
    wanted = request(
        RequestedCall("1", "get_weather", {"location": "Paris"}),
        RequestedCall("2", "nothing", {}),
        RequestedCall("3", "broken", {}),
    )

    functions: dict[str, Any] = {"get_weather": get_weather, "broken": broken}
    wanted.execute_tool_calls(functions)

    assert [call.result for call in wanted.tool_calls] == [
        "The weather in Paris is sunny and 25°celsius",
        "Tool 'nothing' not found",
        "Error executing tool: ValueError: kaput",
    ]


@pytest.mark.requirement("abstractllm.request")
async def test_calls_run_inside_a_running_loop_blocking_and_not() -> None:
    wanted = request(RequestedCall("1", "get_weather", {"location": "Paris"}))
    wanted.execute_tool_calls([get_weather])
    assert wanted.tool_calls[0].result == "The weather in Paris is sunny and 25°celsius"

    wanted = request(RequestedCall("1", "get_weather", {"location": "Rome"}))
    await wanted.execute_tool_calls_async([tool(get_weather)])
    assert wanted.tool_calls[0].result == "The weather in Rome is sunny and 25°celsius"


@pytest.mark.requirement("abstractllm.unparsable-arguments")
def test_arguments_that_are_not_json_stay_as_written_and_the_tool_does_not_run() -> None:
    ran: list[Any] = []

    def note(**given: int) -> None:
        ran.append(given)

    call = RequestedCall.of(ToolCall("1", "note", '{"a": 1'))
    assert call.arguments == '{"a": 1'

    request(call).execute_tool_calls({"note": note})

    assert call.result.startswith("Error executing tool: invalid_arguments")
    assert ran == []


def test_arguments_written_as_json_text_are_an_object_and_a_missing_id_is_made() -> None:
    call = RequestedCall.of(ToolCall("", "get_weather", '{"location": "Oslo"}'), lambda kind: f"{kind}_1")

    assert (call.id, call.arguments) == ("call_1", {"location": "Oslo"})


@pytest.mark.requirement("abstractllm.execute-tools")
def test_execute_tools_takes_calls_of_both_kinds_and_leaves_results_where_it_can() -> None:
    requested, plain = RequestedCall("1", "get_weather", {"location": "Paris"}), ToolCall("2", "missing", {})

    results = execute_tools([requested, plain], {"get_weather": get_weather})

    assert results == [
        {"tool_call_id": "1", "name": "get_weather", "result": requested.result},
        {"tool_call_id": "2", "name": "missing", "result": "Tool 'missing' not found"},
    ]


@pytest.mark.requirement("abstractllm.request")
def test_a_request_made_of_plain_tool_calls_keeps_their_results() -> None:
    given: Any = [
        ToolCall("1", "get_weather", {"location": "Paris"}),
        ToolCall("2", "get_weather", '{"location": "Rome"}'),
    ]
    wanted = ToolCallRequest("Let me see.", given)

    wanted.execute_tool_calls({"get_weather": get_weather})

    assert [(call.id, call.result) for call in wanted.tool_calls] == [
        ("1", "The weather in Paris is sunny and 25°celsius"),
        ("2", "The weather in Rome is sunny and 25°celsius"),
    ]
