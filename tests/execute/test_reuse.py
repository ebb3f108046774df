"""Repeated calls, seen through the executor."""

from __future__ import annotations

import asyncio

import pytest

from handrail import Context, Executor, Policy, Principal, ToolCall, ToolError, tool
from handrail.execute.dedupe.create import ExactDeduplicator, SemanticDeduplicator, WindowDeduplicator
from handrail.testing.clock import FixedClock
from handrail.testing.embedding import WordEmbedder
from handrail.tools.tool import Tool


class Counter:
    """Tools that count how often they really ran."""

    def __init__(self) -> None:
        self.reads = 0
        self.writes = 0

    def read(self, deduplicator: object = None) -> Tool:
        @tool(deduplicator=deduplicator, resource=lambda arguments: arguments["path"])
        async def read(path: str) -> str:
            self.reads += 1
            return f"{path} as of write {self.writes}"

        return read

    def write(self) -> Tool:
        @tool(side_effects=True, resource=lambda arguments: arguments["path"])
        async def write(path: str) -> str:
            self.writes += 1
            return "written"

        return write


FREE = Policy(confirm_side_effects=False)


@pytest.mark.requirement("converser.deduplicator")
async def test_a_repeated_read_is_answered_from_the_first_and_says_so() -> None:
    count = Counter()
    async with Executor([count.read("exact")]) as executor:
        first = await executor.invoke(ToolCall("1", "read", {"path": "a"}))
        second = await executor.invoke(ToolCall("2", "read", '{"path": "a"}'))
        other = await executor.invoke(ToolCall("3", "read", {"path": "b"}))

    assert count.reads == 2
    assert (second.content, second.tool_call_id, second.reused_from) == (first.content, "2", "1")
    assert other.reused_from is None


@pytest.mark.requirement("converser.deduplicator")
async def test_a_write_forgets_what_it_touches_and_only_that() -> None:
    count = Counter()
    async with Executor([count.read(ExactDeduplicator()), count.write()], policy=FREE) as executor:
        for n, path in enumerate(["a", "b"]):
            await executor.invoke(ToolCall(f"read-{n}", "read", {"path": path}))
        await executor.invoke(ToolCall("write", "write", {"path": "a"}))
        a = await executor.invoke(ToolCall("again-a", "read", {"path": "a"}))
        b = await executor.invoke(ToolCall("again-b", "read", {"path": "b"}))

    assert (a.content, a.reused_from) == ("a as of write 1", None)
    assert (b.content, b.reused_from) == ("b as of write 0", "read-1")


@pytest.mark.requirement("converser.deduplicator")
async def test_three_identical_reads_at_once_run_once_and_all_get_the_result() -> None:
    started, go = asyncio.Event(), asyncio.Event()
    runs = 0

    @tool
    async def look(n: int) -> int:
        nonlocal runs
        runs += 1
        started.set()
        await go.wait()
        return runs

    async with Executor([look]) as executor:
        asked = asyncio.create_task(executor.invoke_all([ToolCall(str(i), "look", {"n": 1}) for i in range(3)]))
        await started.wait()
        go.set()
        results = await asked

    assert runs == 1
    assert [(result.tool_call_id, result.content) for result in results] == [("0", 1), ("1", 1), ("2", 1)]


@pytest.mark.requirement("converser.deduplicator")
async def test_a_tool_whose_calls_must_differ_shares_nothing() -> None:
    rolls = iter(range(10))

    @tool(share=False)
    async def roll() -> int:
        return next(rolls)

    async with Executor([roll]) as executor:
        results = await executor.invoke_all([ToolCall(str(i), "roll") for i in range(3)])

    assert [result.content for result in results] == [0, 1, 2]


@pytest.mark.requirement("converser.deduplicator")
async def test_identical_side_effects_each_run_even_with_a_deduplicator() -> None:
    paid: list[str] = []

    @tool(side_effects=True, deduplicator="exact")
    async def pay(to: str) -> int:
        paid.append(to)
        return len(paid)

    async with Executor([pay], policy=FREE) as executor:
        results = await executor.invoke_all([ToolCall(str(i), "pay", {"to": "ada"}) for i in range(3)])

    assert sorted(result.content for result in results) == [1, 2, 3]


@pytest.mark.requirement("converser.deduplicator")
async def test_a_failure_is_not_remembered() -> None:
    answers = iter([ToolError("busy"), "here"])

    @tool(deduplicator="exact")
    async def fetch() -> object:
        return next(answers)

    async with Executor([fetch]) as executor:
        outcomes = [(await executor.invoke(ToolCall(str(i), "fetch"))).outcome for i in range(3)]

    assert outcomes == ["failed", "ok", "ok"]


@pytest.mark.requirement("converser.deduplicator")
async def test_a_window_ends() -> None:
    count, clock = Counter(), FixedClock()
    async with Executor([count.read(WindowDeduplicator(60, clock))], clock=clock) as executor:
        await executor.invoke(ToolCall("1", "read", {"path": "a"}))
        clock.advance(59)
        await executor.invoke(ToolCall("2", "read", {"path": "a"}))
        clock.advance(2)
        await executor.invoke(ToolCall("3", "read", {"path": "a"}))

    assert count.reads == 2


@pytest.mark.requirement("converser.deduplicator")
async def test_a_paraphrase_is_answered_from_memory_and_another_number_is_not() -> None:
    asked: list[str] = []

    @tool(deduplicator=SemanticDeduplicator(WordEmbedder(), threshold=0.8))
    async def search(query: str) -> str:
        asked.append(query)
        return "found"

    async with Executor([search]) as executor:
        for n, query in enumerate(
            ["invoice 17 of the printer", "please, invoice 17 of the printer", "invoice 18 of the printer"]
        ):
            await executor.invoke(ToolCall(str(n), "search", {"query": query}))

    assert asked == ["invoice 17 of the printer", "invoice 18 of the printer"]


async def test_nobody_is_answered_from_the_memory_of_another_run_or_principal() -> None:
    count = Counter()
    async with Executor([count.read("exact")]) as executor:
        for n, context in enumerate(
            [Context(run="a"), Context(run="b"), Context(run="b", principal=Principal("eve")), Context(run="b")]
        ):
            await executor.invoke(ToolCall(str(n), "read", {"path": "a"}), context)

    assert count.reads == 3


async def test_two_writers_of_one_resource_never_overlap() -> None:
    inside = peak = 0

    @tool(side_effects=True, resource=lambda arguments: arguments["path"])
    async def write(path: str, n: int) -> None:
        nonlocal inside, peak
        inside += 1
        peak = max(peak, inside)
        await asyncio.sleep(0)
        inside -= 1

    async with Executor([write], policy=FREE) as executor:
        await executor.invoke_all([ToolCall(str(n), "write", {"path": "a", "n": n}) for n in range(20)])

    assert peak == 1


@pytest.mark.requirement("converser.deduplicator")
async def test_a_write_by_one_caller_is_seen_by_another_that_had_read_before() -> None:
    count = Counter()
    async with Executor([count.read("exact"), count.write()], policy=FREE) as executor:
        await executor.invoke(ToolCall("1", "read", {"path": "a"}), Context(run="theirs"))
        await executor.invoke(ToolCall("2", "write", {"path": "a"}), Context(run="ours"))
        again = await executor.invoke(ToolCall("3", "read", {"path": "a"}), Context(run="theirs"))

    assert again.content == "a as of write 1"
