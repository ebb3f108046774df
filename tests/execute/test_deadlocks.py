"""Calls that hold one thing and want another never wait for each other: one of them is told so, the others end."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import Awaitable, Callable
from types import FrameType

import pytest

from handrail import Executor, Invocation, Policy, Tool, ToolCall, ToolResult, tool
from handrail.core.context import Context
from handrail.core.errors import ToolError
from handrail.execute import concurrency
from handrail.execute.concurrency import CallGate, ConcurrencySlots, GateEntry, ResourceLock
from handrail.tools.definition import ToolDefinition
from handrail.tools.registry import registered

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
    gate, done, order = CallGate(2), asyncio.Event(), list[str]()

    async def call(name: str, resource: str | None, *held: GateEntry, until: asyncio.Event | None = None) -> None:
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
    assert not gate.waiting and not gate.all.locked()


async def test_one_who_waits_later_has_places_lent_by_all_that_wait_for_it() -> None:
    gate, order = CallGate(1), list[str]()

    async def call(name: str, tool: Tool, resource: str | None, *held: GateEntry) -> None:
        async with gate.enter(tool, resource, held or None):
            order.append(name)

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        asking, outer = gate.enter(writer("asking"), None), gate.enter(writer("outer"), None)
        await asking.__aenter__()
        asking.lend()  # it waits for a person
        holder = gate.enter(writer("holder"), "r", (asking,))
        await holder.__aenter__()
        await outer.__aenter__()
        limited = writer("limited", 1)
        group.create_task(call("placeless", limited, None))
        group.create_task(call("next", limited, "r"))
        await turns()
        group.create_task(call("inner", writer("inner"), "r", outer))
        await turns()
        await holder.__aexit__()  # now "inner" waits for "next", and that for "placeless", and that for a place
        await turns()
        assert order == ["placeless", "next", "inner"]
        await outer.__aexit__()
        await asking.__aexit__()


async def test_one_place_of_two_that_comes_free_is_waited_for() -> None:
    """The other is held by a call that waits for this one."""
    gate, order = CallGate(9), list[str]()
    two = writer("two", 2)

    async def call(name: str, tool: Tool, resource: str | None, *held: GateEntry) -> None:
        async with gate.enter(tool, resource, held):
            order.append(name)

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        free, stuck, outer = gate.enter(two, None), gate.enter(two, None), gate.enter(writer("outer"), "r")
        for each in (free, stuck, outer):
            await each.__aenter__()
        group.create_task(call("below stuck", writer("other"), "r", stuck))
        await turns()
        group.create_task(call("below outer", two, None, outer))
        await turns()
        await free.__aexit__()
        await turns()
        assert order == ["below outer"]
        await outer.__aexit__()
        await turns()
        await stuck.__aexit__()
    assert order == ["below outer", "below stuck"]


async def test_a_thousand_calls_that_wait_cost_no_more_each_than_ten() -> None:
    @tool(concurrency=2)
    async def leaf(number: int) -> int:
        """Be called often."""
        return number

    @tool
    async def fan(many: int, context: Invocation) -> str:
        """Call often."""
        found = await asyncio.gather(*(context.invoke("leaf", {"number": each}) for each in range(many)))
        return str({each.outcome for each in found})

    async def steps(many: int) -> int:
        """Of the gate, until so many calls have ended."""
        counted = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal counted
            counted += frame.f_code.co_filename == concurrency.__file__

        async with Executor([fan, leaf], policy=WILLING) as executor:
            sys.setprofile(count)
            try:
                found = await executor.invoke(ToolCall("", "fan", {"many": many}))
            finally:
                sys.setprofile(None)
        assert found.text == "{'ok'}"
        return counted

    assert await steps(1_000) < 150 * await steps(10)


async def test_a_tool_that_is_given_again_has_a_number_of_its_own() -> None:
    most = inside = 0

    def work(concurrency: int) -> Tool:
        async def work() -> None:
            nonlocal most, inside
            inside += 1
            most = max(most, inside)
            await turns()
            inside -= 1

        return tool(concurrency=concurrency, share=False)(work)

    async with Executor([work(4)], policy=WILLING) as executor:
        await executor.invoke_all([ToolCall("", "work")] * 4, Context(run="before"))
        assert most == 4
        most = 0
        executor.renew(registered(work(1)))
        await executor.invoke_all([ToolCall("", "work")] * 4, Context(run="after"))
    assert most == 1


def would_end(gate: CallGate, entry: GateEntry, line: ResourceLock) -> bool:
    """The model: whoever waits for nothing ends, and so on, until it is the turn of this one or nothing moves."""
    lines = {each: list(each.inside) for each in (*gate._resources.values(), *gate._tools.values())}
    alone = {each: each._writing for each in lines}
    queues = {each: [(write, by) for write, by, _ in each._waiting] for each in lines}
    queues[line].append((entry._write, entry))
    there = {each for inside in lines.values() for each in inside} | {by for each in queues.values() for _, by in each}
    while any(by is entry for _, by in queues[line]):
        queued = {by for each in queues.values() for _, by in each}
        kept = {above for each in there if each is not None for above in each.above} | {*entry.above, *queued}
        ends = there - kept
        if not ends:
            return False
        there -= ends
        for each, inside in lines.items():
            inside[:] = [one for one in inside if one not in ends]
            alone[each] = alone[each] and bool(inside)
            while queues[each] and _has_room(each, inside, alone=alone[each], write=queues[each][0][0]):
                alone[each], by = queues[each].pop(0)
                inside += [] if by is None else [by]
    return True


def _has_room(line: ResourceLock, inside: list[GateEntry], *, alone: bool, write: bool) -> bool:
    if isinstance(line, ConcurrencySlots):
        return len(inside) < line._most
    return not alone and not (write and inside)


@pytest.mark.parametrize("seed", range(60))
async def test_whatever_calls_hold_and_want_all_end_and_none_is_refused_in_vain(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, gate = random.Random(seed), CallGate(1 + seed % 3)
    tools = [writer("one", 1), writer("two", 2), writer("free"), Tool(ToolDefinition("read"), lambda: None)]
    check = GateEntry._check

    def compared(self: GateEntry, line: ResourceLock) -> None:
        ends = would_end(gate, self, line)
        try:
            check(self, line)
        except ToolError as error:
            assert error.code == "deadlock" and not ends
            raise
        assert ends

    async def call(depth: int, held: tuple[object, ...] | None) -> None:
        chosen, resource = chance.choice(tools), chance.choice(("a", "b", "c", None))
        with contextlib.suppress(ToolError):
            async with gate.enter(chosen, resource, held) as entry:
                for _ in range(chance.randrange(3)):
                    await asyncio.sleep(0)
                if chance.random() < 0.2:
                    entry.lend()
                below = (*(held or ()), chosen, resource, entry)
                await asyncio.gather(*(call(depth + 1, below) for _ in range(chance.randrange(3 - depth))))

    monkeypatch.setattr(GateEntry, "_check", compared)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(call(0, None) for _ in range(12)))
    assert not gate.waiting and not gate.all.locked() and gate._resources == {}
    assert all(each.idle and not each.inside for each in gate._tools.values())
