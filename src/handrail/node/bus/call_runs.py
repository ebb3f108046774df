"""Which run a call on the bus belongs to.

A session has a run of its own, bound to whoever calls in it. Everybody else has one for a while, and then
another: nobody says when they are gone, and a run keeps what its calls gave. A side effect with an id that
its caller chose has a run to itself, named after both, so that the id means that call also after a restart.
With other tools another run begins.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from handrail.core.canonical import digest
from handrail.core.errors import HandrailError
from handrail.core.ids import NewId
from handrail.core.ports import Clock
from handrail.tools.registry import RegisteredTools

CALLS = 200
"""Calls in one run of callers without a session."""
SESSION_CALLS = 2_000
"""Calls in one run of a session; then it goes on in another."""
BYTES = 8 * 1024 * 1024
"""The most bytes of the calls of one run."""
OPEN = 100
"""Runs that are kept open for callers who may come again."""
IDLE = 600.0
"""Seconds that they are kept."""

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class BusRun:
    id: str
    tools: RegisteredTools
    part: int = 0
    calls: int = 0
    bytes: int = 0
    under_way: int = 0
    last: float = 0.0
    left: bool = False
    """Whether it gets no more calls, and ends with the last of those under way."""


class BusRuns:
    """Finds the run of each call, and ends those that get no more."""

    def __init__(self, new_id: NewId, clock: Clock, finish: Callable[[str], Awaitable[None]]) -> None:
        self._new_id = new_id
        self._clock = clock
        self._finish = finish
        self._open: OrderedDict[tuple[str, str | None], BusRun] = OrderedDict()
        self._alone: dict[str, BusRun] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}

    def begin(self, principal: str, session: str | None, tools: RegisteredTools, alone: str | None = None) -> BusRun:
        """The run of one more call; `alone` is the id of a side effect that has one to itself."""
        run = self._current(principal, session, tools) if alone is None else self._single(principal, alone, tools)
        run.under_way += 1
        run.calls += 1
        return run

    def ending(self, run: BusRun) -> asyncio.Task[None] | None:
        """The end of an earlier life of the run, which a call of it waits for."""
        return self._ending.get(run.id)

    @property
    def are_ending(self) -> bool:
        """Whether the last entry of a run is still to be written."""
        return bool(self._ending)

    def end(self, run: BusRun, bytes: int) -> None:
        """A call of it is over."""
        run.under_way -= 1
        run.bytes += bytes
        if run.left and not run.under_way:
            self._close(run)

    async def aclose(self) -> None:
        """Everybody is gone."""
        while self._open:
            self._leave(self._open.popitem()[1])
        while self._ending:
            await asyncio.wait(set(self._ending.values()))

    def _current(self, principal: str, session: str | None, tools: RegisteredTools) -> BusRun:
        where, now = (principal, session), self._clock.monotonic()
        run = self._open.get(where)
        if run is not None and (run.tools is not tools or _is_full(run, session)):
            part = run.part + 1 if run.tools is tools else 0
            self._leave(self._open.pop(where))
            run = self._open[where] = self._new(principal, session, tools, part)
        elif run is None:
            run = self._open[where] = self._new(principal, session, tools, 0)
        else:
            self._open.move_to_end(where)
        run.last = now
        self._forget(now)
        return run

    def _new(self, principal: str, session: str | None, tools: RegisteredTools, part: int) -> BusRun:
        if session is None:
            return BusRun(self._new_id("run"), tools, part)
        return BusRun(_named([principal, session, tools.digest, part]), tools, part)

    def _single(self, principal: str, call_id: str, tools: RegisteredTools) -> BusRun:
        id = _named([principal, call_id])
        run = self._alone.get(id)
        if run is None:
            run = self._alone[id] = BusRun(id, tools)
            run.left = True
        return run

    def _forget(self, now: float) -> None:
        while len(self._open) > 1:
            where = next(iter(self._open))
            if len(self._open) <= OPEN and now - self._open[where].last <= IDLE:
                return
            self._leave(self._open.pop(where))

    def _leave(self, run: BusRun) -> None:
        run.left = True
        if not run.under_way:
            self._close(run)

    def _close(self, run: BusRun) -> None:
        self._alone.pop(run.id, None)
        task = self._ending[run.id] = asyncio.get_running_loop().create_task(self._finished(run.id))
        task.add_done_callback(lambda _: self._ending.pop(run.id, None))

    async def _finished(self, run: str) -> None:
        try:
            await self._finish(run)
        except HandrailError as error:  # its calls have their answers: only its last entry is missing
            logger.error("run %s could not be ended: %s", run, error)


def _is_full(run: BusRun, session: str | None) -> bool:
    return run.calls >= (CALLS if session is None else SESSION_CALLS) or run.bytes >= BYTES


def _named(parts: list[object]) -> str:
    return f"run_{digest(parts).rpartition(':')[2][:32]}"
