"""How many calls at once: over all tools, of one tool, on one resource."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Any, Self

from handrail.tools.tool import Tool


class Gate:
    """Lets calls in, in the order they came."""

    def __init__(self, concurrency: int) -> None:
        self.all = asyncio.Semaphore(concurrency)
        self._tools: dict[str, asyncio.Semaphore] = {}
        self._resources: dict[Hashable, ResourceLock] = {}

    def enter(self, tool: Tool, resource: Hashable | None, held: tuple[Any, ...] | None = None) -> Entry:
        """Hold a place while the call runs: `async with gate.enter(…)`.

        `held` is given for a nested call: what the calls above it hold. It runs in their
        place, and waits for nothing that they hold: were it to, they would wait for each
        other until one of them is out of time.
        """
        shared = resource is None or (held is not None and resource in held)
        return Entry(self, None if shared else resource, write=not tool.reads, places=self._places(tool, held))

    def _places(self, tool: Tool, held: tuple[Any, ...] | None) -> list[asyncio.Semaphore]:
        found = [self.all] if held is None else []
        if tool.concurrency is not None and tool not in (held or ()):
            found.insert(0, self._tools.setdefault(tool.scoped_name, asyncio.Semaphore(tool.concurrency)))
        return found

    def lock(self, resource: Hashable) -> ResourceLock:
        return self._resources.setdefault(resource, ResourceLock())

    def forget(self, resource: Hashable, lock: ResourceLock) -> None:
        # By now another call may have made a new lock for the resource: that one stays.
        if lock.idle and self._resources.get(resource) is lock:
            del self._resources[resource]


class Entry:
    """A call's way through the gate: what it has taken, it gives back."""

    __slots__ = ("_gate", "_lock", "_places", "_resource", "_taken", "_write")

    def __init__(self, gate: Gate, resource: Hashable | None, *, write: bool, places: list[asyncio.Semaphore]) -> None:
        self._gate = gate
        self._resource = resource
        self._write = write
        self._places = places
        self._taken = 0
        self._lock: ResourceLock | None = None

    async def __aenter__(self) -> Self:
        try:
            if self._resource is not None:
                await self._acquire(self._gate.lock(self._resource))
            for place in self._places:
                await place.acquire()
                self._taken += 1
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._leave()

    def lend(self) -> None:
        """Give the place among all calls to somebody else, for good: this call only waits. The rest stays taken."""
        if self._taken == len(self._places) and self._gate.all in self._places:
            self._taken -= 1
            self._places.pop().release()

    async def _acquire(self, lock: ResourceLock) -> None:
        try:
            await lock.acquire(write=self._write)
        except BaseException:
            self._gate.forget(self._resource, lock)
            raise
        self._lock = lock

    def _leave(self) -> None:
        for place in self._places[: self._taken]:
            place.release()
        if self._lock is not None:
            self._lock.release(write=self._write)
            self._gate.forget(self._resource, self._lock)


class ResourceLock:
    """Many readers or one writer; first come, first served, so that neither starves."""

    __slots__ = ("_readers", "_waiting", "_writing")

    def __init__(self) -> None:
        self._readers = 0
        self._writing = False
        self._waiting: deque[tuple[bool, asyncio.Future[None]]] = deque()

    @property
    def idle(self) -> bool:
        return not (self._readers or self._writing or self._waiting)

    async def acquire(self, *, write: bool) -> None:
        if not self._waiting and self._free(write):
            self._take(write)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((write, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(write=write)
            else:
                self._wake()
            raise

    def release(self, *, write: bool) -> None:
        if write:
            self._writing = False
        else:
            self._readers -= 1
        self._wake()

    def _free(self, write: bool) -> bool:
        return not self._writing and not (write and self._readers)

    def _take(self, write: bool) -> None:
        if write:
            self._writing = True
        else:
            self._readers += 1

    def _wake(self) -> None:
        while self._waiting:
            write, turn = self._waiting[0]
            if not turn.cancelled():
                if not self._free(write):
                    return
                self._take(write)
                turn.set_result(None)
            self._waiting.popleft()
