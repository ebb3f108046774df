"""Which run a call from a client belongs to, and under which id it is known.

A client that shook hands has one run for its session, and so has whoever started this process. The others
have one for each owner, a new one after so many calls, since nobody says when they are gone. A run keeps the
tools that it began with, so with other tools another run begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.canonical import digest
from handrail.core.ids import NewId
from handrail.core.ports import Clock, SystemClock
from handrail.mcp.server.definition import McpCaller

CALLS = 1_000
"""Calls in one run of callers that have no session."""
OPEN = 1_000
"""Runs that are kept open for callers who may come again."""
_REMEMBERED = 10_000

Finish = Callable[[str], Awaitable[None]]
Place = tuple[str, str]
"""A run and the id of a call in it."""


class _ClientRun:
    def __init__(self, id: str, tools: str, since: int) -> None:
        self.id = id
        self.tools = tools
        self.since = since
        """When the client began its conversation, in milliseconds since 1970."""
        self.calls = 0


class ClientRuns:
    """Finds the place of each call, and ends runs that get no more."""

    def __init__(self, new_id: NewId, finish: Finish | None, clock: Clock = SystemClock()) -> None:
        self._new_id = new_id
        self._now = clock.now
        self._finish = finish
        self._open = BoundedMemory[tuple[str, str], _ClientRun](
            OPEN, on_forget=lambda where, run: self._left.add(run.id)
        )
        self._connected = BoundedMemory[tuple[str, str], int](_REMEMBERED)
        """When each connection of a client without a session was first used for a call, by its owner."""
        self._left: set[str] = set()
        """Runs that get no new calls, and are not yet ended."""
        self._under_way: Counter[str] = Counter()
        self._keyed = BoundedMemory[str, str](_REMEMBERED)
        """The run of each call that came with a key, also when its caller has a newer one."""
        self._waiting = BoundedMemory[str, Place](_REMEMBERED)
        """Calls that wait for a decision which their client cannot be asked for."""

    def place(self, caller: McpCaller, owner: str, key: str | None, same: str, tools: str) -> Place:
        """The run and id of a call; `same` names who asks for what, so that a call which waits is known again."""
        if key is not None:
            id = f"call_{digest([owner, key]).rpartition(':')[2][:32]}"
            run = self._keyed.get(id) or self._current(caller, owner, tools)
            self._keyed[id] = run
            return run, id
        return self._waiting.get(same) or (self._current(caller, owner, tools), self._new_id("call"))

    def since(self, caller: McpCaller, owner: str) -> int:
        """When the conversation began that a call belongs to, in milliseconds since 1970.

        Nothing tells whether a client without a session was restarted but that it connects again.
        """
        if caller.session is None and not caller.local:
            where = owner, caller.connection
            since = self._connected[where] = self._connected.get(where) or self._now()
            return since
        run = self._open.get(_where(caller, owner))
        return self._now() if run is None else run.since

    def waits(self, same: str, place: Place) -> None:
        """Notes that nobody can be asked about this call now: whoever sends it again means this one."""
        self._waiting[same] = place

    def settled(self, same: str, place: Place) -> None:
        """Forget that the call waits for an answer."""
        if self._waiting.get(same) == place:
            self._waiting.pop(same, None)

    def begin(self, run: str) -> None:
        self._under_way[run] += 1

    async def end(self, run: str) -> None:
        """Count a call of the run as ended, and end the run if it gets no more."""
        self._under_way[run] -= 1
        if all(run != each.id for each in self._open.values()):
            self._left.add(run)
        await self._sweep()

    async def leave(self, session: str) -> None:
        """End the runs of a session that was closed."""
        for where, run in self._open.items():
            if where[0] == session:
                self._open.pop(where, None)
                self._left.add(run.id)
        await self._sweep()

    async def aclose(self) -> None:
        """End every run."""
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
        where = _where(caller, owner)
        run = self._open.get(where)
        since = self._now() if run is None else run.since
        endless = caller.session is not None or caller.local
        if run is not None and (run.tools != tools or (run.calls >= CALLS and not endless)):
            self._left.add(run.id)
            run = None
        if run is None:
            run = _ClientRun(self._new_id("run"), tools, since)
        self._open[where] = run
        run.calls += 1
        return run.id


def _where(caller: McpCaller, owner: str) -> tuple[str, str]:
    return caller.session or "", owner
