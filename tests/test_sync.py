"""The blocking faces, with and without an event loop around them."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import ToolCall, ToolError, execute_tools, tool
from handrail.core.errors import InvalidArguments, InvalidDefinition, JournalError, UsageError
from handrail.sync import BlockingExecutor, execute_tool_securely
from handrail.testing.journal import MemoryJournal
from tests import holding
from tests.holding import output_of


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
@pytest.mark.parametrize("hang", ["wait", "hold the interpreter", "block the loop", "ignore signals"])
def test_execute_tool_securely_stops_what_it_ran_when_time_is_up(hang: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def wait() -> None:
        pid.write_text(str(os.getpid()))
        match hang:
            case "wait":
                threading.Event().wait()
            case "hold the interpreter":
                ctypes.PyDLL(None).sleep(600)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(600)

    async def block() -> None:
        wait()

    # The fork itself takes a part of the time, and on a busy machine a large one where much is in memory.
    with pytest.raises(ToolError, match=r"timed out after 4 s and was stopped") as caught:
        execute_tool_securely(block if hang == "block the loop" else wait, {}, timeout=4)

    assert caught.value.code == "timeout"
    assert is_gone(int(pid.read_text()))


SECURELY = """
import os, sys
from pathlib import Path
from handrail import ToolError
from handrail.sync import execute_tool_securely
from tests import holding

{define} hold(pid: str) -> None:
    Path(pid).write_text(str(os.getpid()))
    holding.{work}()

try:
    execute_tool_securely(hold, {{"pid": sys.argv[1]}}, timeout=2)
except ToolError as error:
    print(error.code, error)
"""


@pytest.mark.requirement("abstractllm.timeout")
@pytest.mark.parametrize("define", ["def", "async def"])
@pytest.mark.parametrize("work", ["count", "match", "multiply"])
def test_a_program_goes_on_after_execute_tool_securely_whatever_holds_the_interpreter(
    work: str, define: str, tmp_path: Path
) -> None:
    """The work takes hours, or for ever: that the program ends shows that it did not wait."""
    pid = tmp_path / "pid"

    printed = output_of(SECURELY.format(define=define, work=work), str(pid))

    assert printed.startswith("timeout ") and "timed out after 2 s and was stopped" in printed
    assert is_gone(int(pid.read_text()))


@pytest.mark.requirement("abstractllm.timeout")
@pytest.mark.parametrize("work", [holding.match, holding.multiply])
def test_a_blocking_executor_gives_the_real_result_of_what_held_the_interpreter_and_says_that_it_is_late(
    work: Callable[[int], None],
) -> None:
    @tool(timeout=0.5)
    def hold(size: int) -> str:
        work(size)
        return "done"

    call = ToolCall("1", "hold", {"size": holding.size_for_seconds(work)})
    with BlockingExecutor([hold]) as executor:
        result = executor.invoke(call)

    assert (result.outcome, result.content, result.still_running) == ("ok", "done", False)
    (late,) = result.warnings
    assert late.startswith("late: 'hold' ran to its end") and "timeout of 0.5 s" in late
    assert "'hold' held the event loop" in late


def test_execute_tool_securely_runs_closures_and_async_functions_elsewhere() -> None:
    changed = [os.getpid()]

    def change() -> list[int]:
        changed.append(os.getpid())
        return changed

    async def later() -> int:
        return os.getpid()

    here, there = execute_tool_securely(change, {})
    assert here == os.getpid() != there
    assert execute_tool_securely(later, {}) != os.getpid()
    assert changed == [os.getpid()]


def test_execute_tool_securely_tells_what_the_function_raised_and_how_its_process_ended() -> None:
    def fail() -> None:
        raise ValueError("kaput")

    def refuse() -> None:
        raise ToolError("NOT_FOUND", "no such city")

    def leave() -> None:
        os._exit(3)

    with pytest.raises(ToolError, match="ValueError: kaput") as failed:
        execute_tool_securely(fail, {})
    assert "in fail" in "".join(getattr(failed.value.__cause__, "__notes__", ()))
    with pytest.raises(ToolError, match="no such city") as refused:
        execute_tool_securely(refuse, {})
    assert refused.value.code == "NOT_FOUND"
    with pytest.raises(ToolError, match="exit code 3") as left:
        execute_tool_securely(leave, {})
    assert left.value.code == "worker_lost"


def is_gone(pid: int) -> bool:
    """Whether a process has ended, now or within seconds."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 10)[0])
    finally:
        os.close(process)


@pytest.mark.requirement("abstractllm.output-limit")
def test_execute_tool_securely_validates_and_cuts() -> None:
    def chatter(words: int) -> str:
        return "word " * words

    assert execute_tool_securely(chatter, {"words": 2}) == "word word "
    assert len(execute_tool_securely(chatter, {"words": 100_000}, max_output_size=300)) <= 300
    with pytest.raises(InvalidArguments) as caught:
        execute_tool_securely(chatter, {"words": "many"})
    assert str(caught.value).count("invalid_arguments: ") == 1
