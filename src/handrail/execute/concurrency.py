"""How many calls at once: over all tools, of one tool, on one resource; and that no calls wait for each other.

Deadlocks are found by graph reduction (Holt 1972) on a wait-for graph. Its nodes are the lines in which calls wait: the
lock of a resource, and the counted slots of a tool. A line points to every line in which one of its holders waits, or a
call made by that holder does. `_moves` removes lines that clear, again and again: a lock clears when all of its holders
come to their end, counted slots when any of them does, and a holder comes to its end when each line it waits in clears.
What cannot be removed is a set of lines in which nobody can go on even if everybody else gives back all they hold.

Why it is right: an edge appears only when a call begins to wait, and each call that holds something is checked before
it does (one that holds nothing keeps nobody waiting). So the graph has no deadlock before, and if it had one after, the
new edge closes it: that call is refused, and no other. Whoever stands in a line ahead of it waits for the same holders,
and ends once it is in. A check costs what can be reached from that one line, not all lines there are.

A place among all calls is no line, since any other call's would do. A call that waits lends its place instead, so that
no place is ever part of a circle.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Any, Self

from handrail.core.errors import ToolError
from handrail.tools.tool import Tool

_CIRCLE = (
    "it would wait for what another call holds, and that one waits for this one: neither would ever end; "
    "let the other end first and try again, or have both tools touch things in the same order"
)


class CallGate:
    """Lets calls in, in the order they came."""

    def __init__(self, concurrency: int) -> None:
        self.all: asyncio.Semaphore = asyncio.Semaphore(concurrency)
        self.waiting: set[GateEntry] = set()
        """Those that hold something and wait for a place among all calls."""
        self._tools: dict[tuple[str, int], ConcurrencySlots] = {}
        """By name and number: a tool may be given again with another."""
        self._resources: dict[Hashable, ResourceLock] = {}

    def enter(self, tool: Tool, resource: Hashable | None, held: tuple[Any, ...] | None = None) -> GateEntry:
        """Hold a place while the call runs: `async with gate.enter(…)`.

        `held` is given for a nested call: what the calls above it hold. It runs in their
        place, and waits for nothing that they hold: were it to, they would wait for each
        other until one of them is out of time. Nor does it wait in a circle with others.
        """
        shared = resource is None or (held is not None and resource in held)
        places = None
        if tool.concurrency is not None and tool not in (held or ()):
            places = self._tools.setdefault((tool.scoped_name, tool.concurrency), ConcurrencySlots(tool.concurrency))
        return GateEntry(self, None if shared else resource, write=not tool.reads, places=places, held=held)

    def lock(self, resource: Hashable) -> ResourceLock:
        return self._resources.setdefault(resource, ResourceLock())

    def forget(self, resource: Hashable, lock: ResourceLock) -> None:
        # By now another call may have made a new lock for the resource: that one stays.
        if lock.idle and self._resources.get(resource) is lock:
            del self._resources[resource]


class GateEntry:
    """A call's way through the gate: what it has taken, it gives back."""

    __slots__ = ("_gate", "_lock", "_nested", "_placed", "_places", "_resource", "_write", "above", "waits")

    def __init__(
        self,
        gate: CallGate,
        resource: Hashable | None,
        *,
        write: bool,
        places: ConcurrencySlots | None,
        held: tuple[Any, ...] | None,
    ) -> None:
        self._gate = gate
        self._resource = resource
        self._write = write
        self._places = places
        """Of its tool, if they are counted."""
        self._nested = held is not None
        self._lock: ResourceLock | None = None
        self._placed = False
        """Whether it has a place among all calls."""
        self.above: tuple[GateEntry, ...] = tuple(each for each in held if isinstance(each, GateEntry)) if held else ()
        """The calls that it is made in, the outermost first: they end after it."""
        self.waits: dict[ResourceLock, int] = {}
        """The lines in which it waits, or calls made in it do, and how many of them."""

    async def __aenter__(self) -> Self:
        try:
            if self._resource is not None:
                await self._acquire(self._gate.lock(self._resource))
            if self._places is not None:
                await self._turn(self._places, write=False)
            if not self._nested:
                await self._place()
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._leave()

    def lend(self) -> None:
        """Give the place among all calls to somebody else, for good: this call only waits. The rest stays taken."""
        if self._placed:
            self._placed = False
            self._gate.all.release()

    async def _acquire(self, lock: ResourceLock) -> None:
        try:
            await self._turn(lock, write=self._write)
        except BaseException:
            self._gate.forget(self._resource, lock)
            raise
        self._lock = lock

    async def _turn(self, line: ResourceLock, *, write: bool) -> None:
        """Wait for the turn of this call in a line.

        Raises:
            ToolError: It would wait for a call that waits for it.
        """
        holds = self._lock is not None or self.above  # else nobody waits for it
        if holds and not line.is_free(write=write):
            self._check(line)
        await line.acquire(write=write, by=self)

    def _check(self, line: ResourceLock) -> None:
        """Checks that the line would move on if this call waited in it, and that no place is kept from those it waits
        for."""
        self.wait_in(line)
        try:
            lines = _reached(line)
            if not _moves(line, lines):
                raise ToolError("deadlock", _CIRCLE)
        finally:
            self.wait_no_more(line)
        if any(each in self._gate.waiting for other in lines for each in other.inside):
            self._lend_all()

    def wait_in(self, line: ResourceLock) -> None:
        for each in (self, *self.above):
            each.waits[line] = each.waits.get(line, 0) + 1

    def wait_no_more(self, line: ResourceLock) -> None:
        for each in (self, *self.above):
            each.waits[line] -= 1
            if not each.waits[line]:
                del each.waits[line]

    async def _place(self) -> None:
        """Takes a place among all calls. A running call that waits for this one, because it made it, must not keep it
        out."""
        gate = self._gate
        holds = self._lock is not None or self._places is not None
        if holds and gate.all.locked():
            self._lend_all()
            gate.waiting.add(self)
        try:
            await gate.all.acquire()
        finally:
            gate.waiting.discard(self)
        self._placed = True

    def _lend_all(self) -> None:
        """The places of all that wait until this call has ended, those that it is made in among them."""
        left = [self, *self.above]
        found = dict.fromkeys(left)  # in order, so that what happens does not depend on chance
        while left:
            waiting = [each for line in left.pop().holds for each in line.waiting]
            fresh = dict.fromkeys(each for entry in waiting for each in (entry, *entry.above) if each not in found)
            found |= fresh
            left += fresh
        for each in found:
            each.lend()

    @property
    def holds(self) -> list[ResourceLock]:
        """The lines that it is through and in which others may wait for it."""
        taken = [] if self._lock is None else [self._lock]
        if self._places is not None and self in self._places.inside:
            taken.append(self._places)
        return taken

    def _leave(self) -> None:
        self.lend()
        if self._places is not None and self in self._places.inside:
            self._places.release(write=False, by=self)
        if self._lock is not None:
            self._lock.release(write=self._write, by=self)
            self._gate.forget(self._resource, self._lock)


class ResourceLock:
    """Many readers or one writer; first come, first served, so that neither starves."""

    __slots__ = ("_readers", "_waiting", "_writing", "inside")

    def __init__(self) -> None:
        self._readers = 0
        self._writing = False
        self._waiting: deque[tuple[bool, GateEntry | None, asyncio.Future[None]]] = deque()
        self.inside: set[GateEntry] = set()

    @property
    def idle(self) -> bool:
        return not (self._readers or self._writing or self._waiting)

    @property
    def waiting(self) -> list[GateEntry]:
        return [each for _, each, _ in self._waiting if each is not None]

    def clears(self, moving: set[ResourceLock]) -> bool:
        """Whether everybody inside comes to their end, given that those who wait in `moving` do."""
        return all(each.waits.keys() <= moving for each in self.inside)

    def is_free(self, *, write: bool) -> bool:
        return not self._waiting and self._free(write)

    async def acquire(self, *, write: bool, by: GateEntry | None = None) -> None:
        if self.is_free(write=write):
            self._take(write, by)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((write, by, turn))
        if by is not None:
            by.wait_in(self)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(write=write, by=by)
            else:
                if by is not None:
                    by.wait_no_more(self)
                self._wake()
            raise

    def release(self, *, write: bool, by: GateEntry | None = None) -> None:
        if by is not None:
            self.inside.discard(by)
        if write:
            self._writing = False
        else:
            self._readers -= 1
        self._wake()

    def _free(self, write: bool) -> bool:
        return not self._writing and not (write and self._readers)

    def _take(self, write: bool, by: GateEntry | None) -> None:
        if by is not None:
            self.inside.add(by)
        if write:
            self._writing = True
        else:
            self._readers += 1

    def _wake(self) -> None:
        while self._waiting:
            write, by, turn = self._waiting[0]
            if not turn.cancelled():
                if not self._free(write):
                    return
                self._take(write, by)
                if by is not None:
                    by.wait_no_more(self)
                turn.set_result(None)
            self._waiting.popleft()


class ConcurrencySlots(ResourceLock):
    """A counting semaphore that takes part in deadlock detection."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def clears(self, moving: set[ResourceLock]) -> bool:
        """Whether one of those inside comes to its end: one that leaves is enough."""
        return any(each.waits.keys() <= moving for each in self.inside)

    def _free(self, write: bool) -> bool:
        return self._readers < self._most


def _reached(line: ResourceLock) -> list[ResourceLock]:
    """This line and every line in which one of its holders waits, transitively."""
    found = {line: None}
    left = [line]
    while left:
        fresh = dict.fromkeys(other for each in left.pop().inside for other in each.waits if other not in found)
        found |= fresh
        left += fresh
    return list(found)


def _moves(line: ResourceLock, lines: list[ResourceLock]) -> bool:
    """Whether every waiter in this line can eventually enter, if nobody asks for more than now."""
    moving, before = set[ResourceLock](), -1
    while line not in moving and len(moving) > before:
        before = len(moving)
        for each in reversed(lines):  # the farthest first: what moves, moves those before it
            if each.clears(moving):
                moving.add(each)
    return line in moving
