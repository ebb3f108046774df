"""A world in which side effects are counted, and processes that die in it.

What is here stays when a process dies: the effects that took place. A `MortalProcess` is one
process: once it is dead it changes nothing any more, whatever its code still does.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from handrail import Invocation, Tool, ToolError, tool
from handrail.core.errors import JournalError
from handrail.core.events import Event, Recorded
from handrail.core.ports import Journal, Lease
from handrail.tools.tool import Retry

ONCE = frozenset({"pay", "settle", "drag", "stubborn", "outer"})
"""Effects that must never take place twice."""
NEVER = 10**9
RUN = "run"


@dataclass(frozen=True, slots=True)
class Effect:
    kind: str
    n: int
    call_id: str
    key: str


def name_of(invocation: Invocation) -> str:
    """The id of a call, which is its own only within its run."""
    return named(invocation.context.run, invocation.id)


def named(run: str, call_id: str) -> str:
    return call_id if run == RUN else f"{run}/{call_id}"


@dataclass(slots=True)
class CountedWorld:
    effects: list[Effect] = field(default_factory=list)

    def count(self, kind: str, n: int) -> int:
        return sum(each.kind == kind and each.n == n for each in self.effects)

    def repeated(self, *, by_call: bool) -> list[str]:
        """Effects that took place twice and must not: of one call, or of all that the model asked for."""
        counts = Counter(
            f"{each.kind} {each.call_id if by_call else each.n}" for each in self.effects if each.kind in ONCE
        )
        return [which for which, count in counts.items() if count > 1]


class MortalProcess:
    """One process: it counts its steps, and dies at one of them."""

    def __init__(self, chance: Random, *, dies_at: int = NEVER, number: int = 0) -> None:
        self.chance = chance
        self.number = number
        self.steps = 0
        self.dead = False
        self.tries: Counter[str] = Counter()
        self.told: list[Event] = []
        """Everything that this process was told before it died."""
        self._dies_at = dies_at
        self._ids: Counter[str] = Counter()

    def new_id(self, kind: str) -> str:
        self._ids[kind] += 1
        return f"{kind}_{self.number}_{self._ids[kind]}"

    async def emit(self, event: Event) -> None:
        if not self.dead:
            self.told.append(event)
        await self.pause()

    async def step(self) -> None:
        """A place to die."""
        if self.steps == self._dies_at:
            self.dead = True
            asyncio.get_running_loop().stop()
        if self.dead:
            await asyncio.Event().wait()
        self.steps += 1

    async def pause(self) -> None:
        """A place where others may go first, or where time passes."""
        match self.chance.randrange(8):
            case 0 | 1:
                await asyncio.sleep(0)
            case 2:
                await asyncio.sleep(self.chance.random() / 50)


class MortalJournal:
    """A journal of a process that may die before and after each write."""

    def __init__(self, journal: Journal, life: MortalProcess) -> None:
        self._journal = journal
        self._life = life
        self._put_off: deque[Recorded] = deque()
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def append_at_once(self, event: Recorded, *, durable: bool = False) -> bool:
        return False

    def append_soon(self, event: Recorded) -> bool:
        """It is lost if the process dies before something else is written, or before the loop comes to it."""
        if self._life.dead:
            raise JournalError("this process is dead")
        self._put_off.append(event)
        task = asyncio.ensure_future(self.write_put_off())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def write_put_off(self) -> None:
        async with self._writing:
            while self._put_off:
                await self._life.pause()
                await self._life.step()
                await self._journal.append(self._put_off[0])
                self._put_off.popleft()

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        if self._life.dead:
            raise JournalError("this process is dead")
        await self.write_put_off()
        await self._life.pause()
        await self._life.step()
        await self._journal.append(event, durable=durable)
        await self._life.step()
        await self._life.pause()

    async def history(self, run: str) -> list[Recorded]:
        await self.write_put_off()
        return await self._journal.history(run)

    async def lease(self, run: str) -> Lease:
        return await self._journal.lease(run)

    async def aclose(self) -> None:
        await self.write_put_off()
        await self._journal.aclose()


class MortalTools:
    """The tools of one life. Each call of the plan has its own number `n`, by which its effect is known."""

    def __init__(self, world: CountedWorld, life: MortalProcess) -> None:
        self._world = world
        self._life = life

    async def _act(self, invocation: Invocation, kind: str, n: int) -> str:
        await self._life.pause()
        await self._life.step()
        if not self._life.dead:
            self._world.effects.append(Effect(kind, n, name_of(invocation), invocation.idempotency_key))
        await self._life.step()
        await self._life.pause()
        return f"{kind} {n}"

    def tools(self) -> list[Tool]:
        return [*self._reads(), *self._effects(), *self._slow(), *self._callers()]

    def _reads(self) -> list[Tool]:
        act, life = self._act, self._life

        @tool
        async def look(n: int, invocation: Invocation) -> str:
            return await act(invocation, "look", n)

        @tool(retry=Retry(attempts=3, first_delay=0.1))
        async def flaky(n: int, invocation: Invocation) -> str:
            life.tries[invocation.id] += 1
            if life.tries[invocation.id] <= n % 4:
                raise ToolError("busy", "try again")
            return await act(invocation, "flaky", n)

        @tool
        async def broken(what: str) -> str:
            await life.pause()
            raise ToolError("broken", f"{what} is broken")

        return [look, flaky, broken]

    def _effects(self) -> list[Tool]:
        act, world = self._act, self._world

        async def look_up(invocation: Invocation) -> str | None:
            n = invocation.arguments["n"]
            return f"settle {n}" if world.count("settle", n) else None

        @tool(side_effects=True)
        async def pay(n: int, invocation: Invocation) -> str:
            return await act(invocation, "pay", n)

        @tool(side_effects=True, idempotent=True)
        async def put(n: int, invocation: Invocation) -> str:
            return await act(invocation, "put", n)

        @tool(side_effects=True, reconcile=look_up)
        async def settle(n: int, invocation: Invocation) -> str:
            return await act(invocation, "settle", n)

        return [pay, put, settle]

    def _slow(self) -> list[Tool]:
        act = self._act

        @tool(timeout=1.0)
        async def slow(n: int, invocation: Invocation) -> str:
            await asyncio.sleep(5)
            return await act(invocation, "slow", n)

        @tool(side_effects=True, timeout=1.0)
        async def drag(n: int, invocation: Invocation) -> str:
            done = await act(invocation, "drag", n)
            await asyncio.sleep(5)
            return done

        @tool(side_effects=True, timeout=1.0)
        async def stubborn(n: int, invocation: Invocation) -> str:
            for _ in range(20):
                try:
                    await asyncio.sleep(0.1)
                except asyncio.CancelledError:
                    continue
            return await act(invocation, "stubborn", n)

        return [slow, drag, stubborn]

    def _callers(self) -> list[Tool]:
        """Tools that call tools."""
        act = self._act

        @tool
        async def wrap(n: int, invocation: Invocation) -> Any:
            return (await invocation.invoke("look", {"n": n})).content

        @tool(side_effects=True)
        async def outer(n: int, invocation: Invocation) -> str:
            await invocation.invoke("look", {"n": n})
            paid = await invocation.invoke("pay", {"n": n})
            await act(invocation, "outer", n)
            return f"outer {n}: {paid.outcome}"

        @tool
        async def sly(n: int, invocation: Invocation) -> str:
            """Says that it only reads, and is wrong."""
            return (await invocation.invoke("pay", {"n": n})).outcome

        @tool(side_effects=True, idempotent=True)
        async def again(n: int, invocation: Invocation) -> str:
            """Says that it may run again, and calls what may not."""
            return (await invocation.invoke("pay", {"n": n})).outcome

        return [wrap, outer, sly, again]
