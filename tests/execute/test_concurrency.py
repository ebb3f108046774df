"""How many at once: over all tools, of one tool, on one resource; in order, and nothing is left held."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail.execute.concurrency import CallGate, ResourceLock
from handrail.tools.definition import ToolDefinition
from handrail.tools.tool import Tool
from tests.examples import examples


def reader(name: str = "read", concurrency: int | None = None) -> Tool:
    return Tool(ToolDefinition(name), lambda: None, concurrency=concurrency)


def writer(name: str = "write", concurrency: int | None = None) -> Tool:
    return Tool(ToolDefinition(name, side_effects=True), lambda: None, concurrency=concurrency)


async def turn() -> None:
    """Let every task that is ready go one step."""
    loop = asyncio.get_running_loop()
    gone_round = loop.create_future()
    loop.call_soon(gone_round.set_result, None)
    await gone_round


async def settled() -> None:
    """Let every task run until it waits for something that only the test gives."""
    for _ in range(20):
        await turn()


class Floor:
    """Calls inside a gate: each stays until it is let go, and what must not overlap is checked."""

    def __init__(self, gate: CallGate) -> None:
        self.gate = gate
        self.order: list[str] = []
        self.most: Counter[str] = Counter()
        self._inside: Counter[str] = Counter()
        self._writing: Counter[Hashable] = Counter()
        self._reading: Counter[Hashable] = Counter()
        self._doors: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def call(self, name: str, tool: Tool, resource: Hashable | None = None, *, nested: bool = False) -> None:
        self._doors[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._run(name, tool, resource, nested))

    async def _run(self, name: str, tool: Tool, resource: Hashable | None, nested: bool) -> None:
        async with self.gate.enter(tool, resource, () if nested else None):
            self.order.append(name)
            self._count(tool, resource, 1)
            try:
                await self._doors[name].wait()
            finally:
                self._count(tool, resource, -1)

    def _count(self, tool: Tool, resource: Hashable | None, by: int) -> None:
        self._inside[tool.name] += by
        self._inside["(all)"] += by
        for name, inside in self._inside.items():
            self.most[name] = max(self.most[name], inside)
        if resource is not None:
            (self._reading if tool.reads else self._writing)[resource] += by
            assert self._writing[resource] + (self._reading[resource] > 0) <= 1, "a writer was not alone"

    def leave(self, name: str) -> None:
        self._doors[name].set()

    def cancel(self, name: str) -> None:
        self._tasks[name].cancel()

    @property
    def inside(self) -> int:
        return self._inside["(all)"]

    async def empty(self) -> None:
        """Let everybody go and wait until they have left."""
        for door in self._doors.values():
            door.set()
        for ended in await asyncio.gather(*self._tasks.values(), return_exceptions=True):
            assert ended is None or isinstance(ended, asyncio.CancelledError), ended


async def still_whole(gate: CallGate, concurrency: int) -> None:
    """Nothing is held and nothing is lost: as many as ever may enter, and a writer among them."""
    floor = Floor(gate)
    for number in range(concurrency + 1):
        floor.call(f"c{number}", writer(f"w{number}"), f"r{number}")
    await settled()
    assert floor.inside == concurrency
    await floor.empty()
    assert gate._resources == {}


# ── the gate ──────────────────────────────────────────────────────────────────────────


async def test_of_300_calls_at_once_no_more_run_than_are_allowed() -> None:
    floor = Floor(CallGate(8))
    tools = [reader("two", concurrency=2), reader("one", concurrency=1), reader("many", concurrency=50), reader("free")]
    for number in range(300):
        floor.call(f"c{number}", tools[number % 4])

    for _ in range(300):
        await settled()
        assert floor.inside <= 8
        for name in floor.order:
            floor.leave(name)
    await floor.empty()

    assert len(floor.order) == 300
    assert floor.most["(all)"] == 8
    assert (floor.most["two"], floor.most["one"]) == (2, 1)
    await still_whole(floor.gate, 8)


async def test_calls_enter_in_the_order_they_came() -> None:
    floor = Floor(CallGate(2))
    names = [f"c{number}" for number in range(10)]
    for name in names:
        floor.call(name, reader())

    for name in names:
        await settled()
        floor.leave(name)
    await floor.empty()

    assert floor.order == names


async def test_a_call_that_waits_for_its_tool_takes_no_place_from_others() -> None:
    floor = Floor(CallGate(2))
    slow = reader("slow", concurrency=1)
    for number in range(5):
        floor.call(f"slow{number}", slow)
    floor.call("other", reader("other"))
    await settled()

    assert floor.order == ["slow0", "other"]
    await floor.empty()


async def test_a_nested_call_runs_in_the_place_of_its_caller() -> None:
    floor = Floor(CallGate(1))
    floor.call("outer", reader("outer"))
    await settled()
    floor.call("inner", reader("inner"), nested=True)
    floor.call("another", reader("another"))
    await settled()

    assert floor.order == ["outer", "inner"]
    await floor.empty()


async def test_a_nested_call_is_still_held_to_the_cap_of_its_tool_and_to_its_resource() -> None:
    floor = Floor(CallGate(9))
    capped = reader("capped", concurrency=1)
    floor.call("first", capped)
    floor.call("writer", writer(), "notes")
    await settled()
    floor.call("nested capped", capped, nested=True)
    floor.call("nested writer", writer(), "notes", nested=True)
    await settled()

    assert floor.order == ["first", "writer"]
    await floor.empty()
    assert len(floor.order) == 4


# ── resources ─────────────────────────────────────────────────────────────────────────


async def test_readers_of_a_resource_share_it_and_a_writer_is_alone() -> None:
    floor = Floor(CallGate(9))
    for name, tool in (("r1", reader()), ("r2", reader()), ("w1", writer()), ("w2", writer()), ("r3", reader())):
        floor.call(name, tool, "notes")

    await settled()
    assert floor.order == ["r1", "r2"]
    floor.leave("r1")
    await settled()
    assert floor.order == ["r1", "r2"]
    floor.leave("r2")
    await settled()
    assert floor.order == ["r1", "r2", "w1"]
    floor.leave("w1")
    await settled()
    assert floor.order == ["r1", "r2", "w1", "w2"]
    floor.leave("w2")
    await settled()
    assert floor.order == ["r1", "r2", "w1", "w2", "r3"]
    await floor.empty()


async def test_readers_that_keep_coming_do_not_starve_a_writer() -> None:
    floor = Floor(CallGate(99))
    floor.call("r0", reader(), "notes")
    await settled()
    floor.call("w", writer(), "notes")
    for number in range(1, 20):
        floor.call(f"r{number}", reader(), "notes")
        await settled()

    assert floor.order == ["r0"]
    floor.leave("r0")
    await settled()
    assert floor.order == ["r0", "w"]
    await floor.empty()


async def test_writers_of_other_resources_do_not_wait() -> None:
    floor = Floor(CallGate(9))
    for name in "abc":
        floor.call(name, writer(), name)
    floor.call("none", writer())
    await settled()

    assert sorted(floor.order) == ["a", "b", "c", "none"]
    await floor.empty()
    assert floor.gate._resources == {}


async def test_a_waiting_writer_that_is_cancelled_lets_the_readers_behind_it_in() -> None:
    floor = Floor(CallGate(9))
    for name, tool in (("r1", reader()), ("w", writer()), ("r2", reader()), ("r3", reader())):
        floor.call(name, tool, "notes")
    await settled()
    assert floor.order == ["r1"]

    floor.cancel("w")
    await settled()

    assert floor.order == ["r1", "r2", "r3"]
    await floor.empty()


async def test_a_cancelled_waiter_whose_lock_was_let_go_leaves_the_new_lock_alone() -> None:
    gate = CallGate(9)
    holding = gate.enter(writer(), "notes", None)
    await holding.__aenter__()
    waiting = asyncio.ensure_future(gate.enter(writer(), "notes", None).__aenter__())
    await settled()

    waiting.cancel()  # it learns of it only when the loop runs again
    await holding.__aexit__(None, None, None)
    newcomer = gate.enter(writer(), "notes", None)
    await newcomer.__aenter__()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    another = asyncio.ensure_future(gate.enter(writer(), "notes", None).__aenter__())
    await settled()

    assert not another.done()
    await newcomer.__aexit__(None, None, None)
    await another


class Script:
    """Steps drawn at random: calls come, leave and are cancelled, with the loop running or not in between."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.floor = Floor(CallGate(3))
        self.tools = [reader(), writer(), reader("capped", concurrency=1), writer("one", concurrency=1)]
        self.alive: list[str] = []
        self.count = 0

    async def step(self) -> None:
        match self.chance.randrange(6):
            case 0 | 1 | 2:
                self.count += 1
                name = f"c{self.count}"
                resource: Any = self.chance.choice([None, "a", "a", "b"])
                self.floor.call(name, self.chance.choice(self.tools), resource, nested=self.chance.random() < 0.2)
                self.alive.append(name)
            case 3 if self.alive:
                self.floor.leave(self.alive.pop(self.chance.randrange(len(self.alive))))
            case 4 if self.alive:
                self.floor.cancel(self.alive.pop(self.chance.randrange(len(self.alive))))
            case _:
                for _ in range(self.chance.randrange(4)):
                    await turn()


@settings(max_examples=examples(60), deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 80))
async def test_whatever_comes_leaves_or_is_cancelled_nothing_overlaps_and_nothing_is_left_held(
    chance: random.Random, steps: int
) -> None:
    script = Script(chance)
    for _ in range(steps):
        await script.step()
    await script.floor.empty()

    assert script.floor.inside == 0
    await still_whole(script.floor.gate, 3)


async def test_an_error_inside_lets_everything_go() -> None:
    gate = CallGate(1)

    with pytest.raises(LookupError):
        async with gate.enter(writer(concurrency=1), "notes", None):
            raise LookupError

    await still_whole(gate, 1)


# ── the lock ──────────────────────────────────────────────────────────────────────────


async def test_a_lock_is_idle_until_somebody_has_it_or_waits_for_it() -> None:
    lock = ResourceLock()
    assert lock.idle

    await lock.acquire(write=True)
    waiting = asyncio.ensure_future(lock.acquire(write=False))
    await settled()
    assert not lock.idle

    lock.release(write=True)
    await waiting
    assert not lock.idle
    lock.release(write=False)
    assert lock.idle


async def test_a_waiter_that_is_cancelled_just_as_its_turn_comes_passes_it_on() -> None:
    lock = ResourceLock()
    await lock.acquire(write=True)
    first = asyncio.ensure_future(lock.acquire(write=True))
    second = asyncio.ensure_future(lock.acquire(write=True))
    await settled()

    lock.release(write=True)  # it is the first one's turn, but it has not run yet
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    await second
    lock.release(write=True)
    assert lock.idle
