"""Which run a call from a client belongs to, and under which id it is known.

A client that shook hands has one run for its session, and so has whoever started this process. The others
have one for each owner, a new one after so many calls, since nobody says when they are gone. A run keeps the
tools that it began with, so with other tools another run begins.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

from handrail.core.canonical import digest
from handrail.core.ids import NewId
from handrail.mcp.server.definition import McpCaller

CALLS = 1_000
"""Calls in one run of callers that have no session."""
OPEN = 1_000
"""Runs that are kept open for callers who may come again."""
_REMEMBERED = 10_000

V = TypeVar("V")
Finish = Callable[[str], Awaitable[None]]
Place = tuple[str, str]
"""A run and the id of a call in it."""


class _NewestEntries(OrderedDict[str, V]):
    """Forgets the oldest beyond so many."""

    def keep(self, key: str, value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        while len(self) > _REMEMBERED:
            self.popitem(last=False)


class _ClientRun:
    def __init__(self, id: str, tools: str) -> None:
        self.id = id
        self.tools = tools
        self.calls = 0


class ClientRuns:
    """Finds the place of each call, and ends runs that get no more."""

    def __init__(self, new_id: NewId, finish: Finish | None) -> None:
        self._new_id = new_id
        self._finish = finish
        self._open: OrderedDict[tuple[str, str], _ClientRun] = OrderedDict()
        self._left: set[str] = set()
        """Runs that get no new calls, and are not yet ended."""
        self._under_way: Counter[str] = Counter()
        self._keyed: _NewestEntries[str] = _NewestEntries()
        """The run of each call that came with a key, also when its caller has a newer one."""
        self._waiting: _NewestEntries[Place] = _NewestEntries()
        """Calls that wait for a word which their client cannot be asked for."""

    def place(self, caller: McpCaller, owner: str, key: str | None, same: str, tools: str) -> Place:
        """Where a call belongs; `same` names who asks for what, so that a call which waits is known again."""
        if key is not None:
            id = f"call_{digest([owner, key]).rpartition(':')[2][:32]}"
            run = self._keyed.get(id) or self._current(caller, owner, tools)
            self._keyed.keep(id, run)
            return run, id
        return self._waiting.get(same) or (self._current(caller, owner, tools), self._new_id("call"))

    def waits(self, same: str, place: Place) -> None:
        """Nobody can be asked about this call now: who sends it again means this one."""
        self._waiting.keep(same, place)

    def settled(self, same: str, place: Place) -> None:
        """It waits no more."""
        if self._waiting.get(same) == place:
            del self._waiting[same]

    def begin(self, run: str) -> None:
        self._under_way[run] += 1

    async def end(self, run: str) -> None:
        """A call is over."""
        self._under_way[run] -= 1
        if all(run != each.id for each in self._open.values()):
            self._left.add(run)
        await self._sweep()

    async def leave(self, session: str) -> None:
        """A session is over."""
        for where in [where for where in self._open if where[0] == session]:
            self._left.add(self._open.pop(where).id)
        await self._sweep()

    async def aclose(self) -> None:
        """Everybody is gone."""
        self._left |= {run.id for run in self._open.values()}
        self._open.clear()
        self._under_way.clear()
        await self._sweep()

    async def _sweep(self) -> None:
        for run in sorted(self._left):
            if run in self._left and self._under_way[run] <= 0:  # somebody else may sweep at the same time
                del self._under_way[run]
                self._left.discard(run)
                if self._finish is not None:
                    await self._finish(run)

    def _current(self, caller: McpCaller, owner: str, tools: str) -> str:
        where = (caller.session or "", owner)
        run = self._open.get(where)
        endless = caller.session is not None or caller.local
        if run is not None and (run.tools != tools or (run.calls >= CALLS and not endless)):
            self._left.add(self._open.pop(where).id)
            run = None
        if run is None:
            run = self._open[where] = _ClientRun(self._new_id("run"), tools)
            while len(self._open) > OPEN:
                self._left.add(self._open.popitem(last=False)[1].id)
        run.calls += 1
        self._open.move_to_end(where)
        return run.id
