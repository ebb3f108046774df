"""The blocking faces, with and without an event loop around them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from handrail import ToolCall, ToolError, execute_tools, tool
from handrail.core.errors import InvalidArguments, InvalidDefinition, JournalError, UsageError
from handrail.sync import BlockingExecutor, execute_tool_securely
from handrail.testing.journal import MemoryJournal


def get_weather(location: str, unit: str = "celsius") -> str:
    """Get the current weather for a location."""
    return f"The weather in {location} is sunny and 25°{unit}"


async def get_time(location: str) -> str:
    return f"noon in {location}"


def broken() -> None:
    raise ValueError("kaput")


CALLS = [
    ToolCall(id="1", name="get_weather", arguments={"location": "Paris"}),
    ToolCall(id="2", name="get_time", arguments={"location": "Paris"}),
    ToolCall(id="3", name="nothing", arguments={}),
    ToolCall(id="4", name="broken", arguments={}),
]
FUNCTIONS: dict[str, Any] = {"get_weather": get_weather, "get_time": get_time, "broken": broken}
EXPECTED = [
    {"tool_call_id": "1", "name": "get_weather", "result": "The weather in Paris is sunny and 25°celsius"},
    {"tool_call_id": "2", "name": "get_time", "result": "noon in Paris"},
    {"tool_call_id": "3", "name": "nothing", "result": "Tool 'nothing' not found"},
    {"tool_call_id": "4", "name": "broken", "result": "Error executing tool: ValueError: kaput"},
]


@pytest.mark.requirement("abstractllm.execute-tools")
def test_execute_tools_gives_id_name_and_result_in_the_order_of_the_calls() -> None:
    assert execute_tools(CALLS, FUNCTIONS) == EXPECTED


@pytest.mark.requirement("abstractllm.execute-tools")
async def test_execute_tools_works_inside_a_running_loop() -> None:
    assert execute_tools(CALLS, FUNCTIONS) == EXPECTED


def test_a_blocking_executor_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    with BlockingExecutor([tool(get_time)]) as executor:
        result = executor.invoke(ToolCall("1", "get_time", {"location": "Lisbon"}))

    assert result.content == "noon in Lisbon"
    assert set(threading.enumerate()) <= before


def test_a_blocking_executor_that_cannot_be_made_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    with pytest.raises(InvalidDefinition):
        BlockingExecutor(["not a tool"])

    assert set(threading.enumerate()) <= before


def test_a_blocking_executor_whose_record_cannot_be_ended_leaves_no_thread_behind() -> None:
    before, journal = set(threading.enumerate()), MemoryJournal()
    executor = BlockingExecutor([tool(get_time)], journal=journal)
    executor.invoke(ToolCall("1", "get_time", {"location": "Lisbon"}))
    journal.fail_at = 0
    with pytest.raises(JournalError):
        executor.close()

    assert set(threading.enumerate()) <= before


def test_a_blocking_executor_may_be_closed_twice_and_says_that_it_is_closed() -> None:
    with BlockingExecutor([tool(get_time)]) as executor:
        executor.close()

    with pytest.raises(UsageError, match="make a new one"):
        executor.invoke(ToolCall("1", "get_time", {"location": "Lisbon"}))


def test_a_tool_that_would_wait_for_itself_is_told_so() -> None:
    @tool
    async def impatient() -> Any:
        return executor.invoke(ToolCall("2", "get_time", {"location": "Lisbon"}))

    with BlockingExecutor([tool(get_time), impatient]) as executor:
        result = executor.invoke(ToolCall("1", "impatient"))

    assert result.outcome == "failed"
    assert "await the async form" in result.text


def test_execute_tool_securely_takes_a_lambda() -> None:
    assert execute_tool_securely(lambda a: a + 1, {"a": 1}) == 2


@pytest.mark.requirement("abstractllm.timeout")
def test_execute_tool_securely_answers_on_time_and_does_not_wait_for_the_straggler() -> None:
    go = threading.Event()

    def slow() -> None:
        go.wait(30)

    with pytest.raises(ToolError, match=r"timed out after 0\.05 s") as caught:
        execute_tool_securely(slow, {}, timeout=0.05)
    go.set()

    assert caught.value.code == "timeout"


@pytest.mark.requirement("abstractllm.output-limit")
def test_execute_tool_securely_validates_and_cuts() -> None:
    def chatter(words: int) -> str:
        return "word " * words

    assert execute_tool_securely(chatter, {"words": 2}) == "word word "
    assert len(execute_tool_securely(chatter, {"words": 100_000}, max_output_size=300)) <= 300
    with pytest.raises(InvalidArguments) as caught:
        execute_tool_securely(chatter, {"words": "many"})
    assert str(caught.value).count("invalid_arguments: ") == 1
