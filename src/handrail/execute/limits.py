"""How many calls at once: over all tools, of one tool, on one resource."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Any

from handrail.tools.tool import Tool


class Gate:
    """Lets calls in, in the order they came."""

    def __init__(self, concurrency: int) -> None:
        self._all = asyncio.Semaphore(concurrency)
        self._tools: dict[str, asyncio.Semaphore] = {}
        self._resources: dict[Hashable, ResourceLock] = {}

    @asynccontextmanager
    async def enter(
        self, tool: Tool, resource: Hashable | None, held: tuple[Any, ...] | None = None
    ) -> AsyncIterator[None]:
        """Hold a place while the call runs.

        `held` is given for a nested call: what the calls above it hold. It runs in their
        place, and waits for nothing that they hold: were it to, they would wait for each
        other until one of them is out of time.
        """
        taken: list[asyncio.Semaphore] = []
        shared = resource is None or (held is not None and resource in held)
        lock = None if shared else self._resources.setdefault(resource, ResourceLock())
        try:
            if lock is not None:
                await lock.acquire(write=not tool.reads)
            try:
                for semaphore in self._semaphores(tool, held):
                    await semaphore.acquire()
                    taken.append(semaphore)
                yield
            finally:
                for semaphore in taken:
                    semaphore.release()
                if lock is not None:
                    lock.release(write=not tool.reads)
        finally:
            # By now another call may have made a new lock for the resource: that one stays.
            if lock is not None and lock.idle and self._resources.get(resource) is lock:
                del self._resources[resource]

    def _semaphores(self, tool: Tool, held: tuple[Any, ...] | None) -> list[asyncio.Semaphore]:
        found = [self._all] if held is None else []
        if tool.concurrency is not None and tool not in (held or ()):
            found.insert(0, self._tools.setdefault(tool.scoped_name, asyncio.Semaphore(tool.concurrency)))
        return found


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
