"""Calls that hold one thing and want another never wait for each other: one of them is told so, the others end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from handrail import Executor, Invocation, Policy, Tool, ToolCall, ToolResult, tool
from handrail.core.context import Context
from handrail.core.errors import ToolError
from handrail.execute.limits import Entry, Gate
from handrail.tools.definition import ToolDefinition

PATIENCE = 20
WILLING = Policy(confirm_side_effects=False, timeout=3_600)


@tool(side_effects=True, resource=lambda arguments: arguments["path"])
async def write(path: str) -> str:
    """Write."""
    return f"wrote {path}"


def moves(ready: Callable[[], Awaitable[None]], concurrency: int | None = None) -> Tool:
    """A tool that holds one path, and writes another once it may."""

    @tool(side_effects=True, resource=lambda arguments: arguments["source"], concurrency=concurrency)
    async def move(source: str, target: str, context: Invocation) -> str:
        """Move something."""
        await ready()
        return (await context.invoke("write", {"path": target})).text

    return move


async def moved(executor: Executor, source: str, target: str) -> ToolResult:
    return await executor.invoke(ToolCall("", "move", {"source": source, "target": target}), Context(run=source))


async def test_two_that_hold_what_the_other_wants_do_not_wait_for_each_other() -> None:
    both = asyncio.Barrier(2)

    async def ready() -> None:
        await both.wait()

    async with Executor([write, moves(ready)], policy=WILLING) as executor, asyncio.timeout(PATIENCE):
        first, second = await asyncio.gather(moved(executor, "a", "b"), moved(executor, "b", "a"))
    texts = sorted((first.text, second.text))
    assert texts[1] in ("wrote a", "wrote b")
    assert "would wait for what another call holds" in texts[0] and "in the same order" in texts[0]


async def test_a_circle_of_three_is_one_too() -> None:
    all = asyncio.Barrier(3)

    async def ready() -> None:
        await all.wait()

    async with Executor([write, moves(ready)], policy=WILLING) as executor, asyncio.timeout(PATIENCE):
        found = await asyncio.gather(*(moved(executor, *each) for each in (("a", "b"), ("b", "c"), ("c", "a"))))
    assert sum("neither would ever end" in each.text for each in found) == 1


async def test_what_a_call_wants_is_waited_for_where_that_ends() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def ready() -> None:
        if begun.is_set():
            return
        begun.set()
        await go_on.wait()

    async with Executor([write, moves(ready)], policy=WILLING) as executor, asyncio.timeout(PATIENCE):
        slow = asyncio.create_task(moved(executor, "b", "c"))
        await begun.wait()
        waits = asyncio.create_task(moved(executor, "a", "b"))
        other = await executor.invoke(ToolCall("", "write", {"path": "d"}))
        assert other.outcome == "ok" and not waits.done()
        go_on.set()
        assert [(await slow).text, (await waits).text] == ["wrote c", "wrote b"]


async def test_the_only_place_is_lent_to_a_call_that_holds_what_is_wanted() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def ready() -> None:
        begun.set()
        await go_on.wait()

    policy = Policy(confirm_side_effects=False, timeout=3_600, concurrency=1)
    async with Executor([write, moves(ready)], policy=policy) as executor, asyncio.timeout(PATIENCE):
        inside = asyncio.create_task(moved(executor, "a", "b"))
        await begun.wait()
        # It has what it touches, and waits for the one place there is.
        waits = asyncio.create_task(executor.invoke(ToolCall("", "write", {"path": "b"}), Context(run="other")))
        await turns()
        go_on.set()
        assert [(await waits).text, (await inside).text] == ["wrote b", "wrote b"]


# ── the gate alone ───────────────────────────────────────────────────────────────────


def writer(name: str, concurrency: int | None = None) -> Tool:
    return Tool(ToolDefinition(name, side_effects=True), lambda: None, concurrency=concurrency)


async def turns() -> None:
    """Let every task run until it waits for something that only the test gives."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_place_is_lent_as_well_to_one_whose_turn_comes_later() -> None:
    gate, done, order = Gate(2), asyncio.Event(), list[str]()

    async def call(name: str, resource: str | None, *held: Entry, until: asyncio.Event | None = None) -> None:
        async with gate.enter(writer(name), resource, held or None):
            order.append(name)
            if until is not None:
                await until.wait()

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        first, outer = gate.enter(writer("first"), "r"), gate.enter(writer("outer"), None)
        await first.__aenter__()
        await outer.__aenter__()
        group.create_task(call("idle", None, until=done))
        group.create_task(call("next", "r"))
        await turns()
        group.create_task(call("inner", "r", outer))
        await turns()
        await first.__aexit__()
        await turns()
        # "idle" has the place of "first" and keeps it; that of "outer" is the only one that "next" can have.
        assert order == ["idle", "next", "inner"]
        done.set()
        await outer.__aexit__()
    assert gate.waiting == {} and not gate.all.locked()


@pytest.mark.parametrize("seed", range(60))
async def test_whatever_calls_hold_and_want_all_of_them_end(seed: int) -> None:
    chance, gate = random.Random(seed), Gate(3)
    tools = [writer("one", 1), writer("two", 2), writer("free"), Tool(ToolDefinition("read"), lambda: None)]
    refused = 0

    async def call(depth: int, held: tuple[object, ...] | None) -> None:
        nonlocal refused
        chosen, resource = chance.choice(tools), chance.choice(("a", "b", "c", None))
        try:
            async with gate.enter(chosen, resource, held) as entry:
                for _ in range(chance.randrange(3)):
                    await asyncio.sleep(0)
                below = (*(held or ()), chosen, resource, entry)
                await asyncio.gather(*(call(depth + 1, below) for _ in range(chance.randrange(3 - depth))))
        except ToolError as error:
            assert error.code == "deadlock"
            refused += 1

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(call(0, None) for _ in range(12)))
    assert gate.waiting == {} and not gate.all.locked() and gate._resources == {}
