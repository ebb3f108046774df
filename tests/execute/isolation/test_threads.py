"""Plain functions in threads, when the executor is closed and when the machine has no thread left."""

from __future__ import annotations

import threading

import pytest

from handrail import Executor, Policy, ToolCall, tool


@tool
def thread_of(n: int) -> str:
    return f"{n} in {threading.current_thread().name}"


async def test_a_plain_function_runs_also_after_the_executor_was_closed() -> None:
    async with Executor([thread_of], policy=Policy(timeout=5)) as executor:
        await executor.invoke(ToolCall("1", "thread_of", {"n": 1}))
    result = await executor.invoke(ToolCall("2", "thread_of", {"n": 2}))
    await executor.aclose()

    assert (result.outcome, result.content) == ("ok", "2 in handrail-tool")


async def test_a_call_for_which_there_is_no_thread_is_refused_and_never_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    @tool(side_effects=True)
    def pay(amount: int) -> None:
        ran.append(amount)

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with Executor([pay], policy=Policy(confirm_side_effects=False, timeout=5)) as executor:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            refused = await executor.invoke(ToolCall("1", "pay", {"amount": 1}))
        paid = await executor.invoke(ToolCall("2", "pay", {"amount": 2}))

    assert (refused.outcome, paid.outcome, ran) == ("limit", "ok", [2])
    assert "not started" in refused.text
