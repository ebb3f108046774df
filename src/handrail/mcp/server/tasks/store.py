"""Tasks: calls that go on without a request that waits for them, and what became of them, for a while.

They are in memory and bounded: what a call did is in the journal, and a task is only the
client's way to hear of it. An id cannot be guessed, and is good only for who began it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from handrail.core.errors import UsageError
from handrail.core.events import CallProgress, Event
from handrail.core.ports import Clock, SystemClock
from handrail.mcp.server.calls_in_progress import CallInProgress
from handrail.mcp.server.client_questions import Question

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]

LONG = "long"
"""The tag of a tool whose calls become tasks where the client can have them."""
ONLY = "long-only"
"""The tag of a tool that a client without tasks cannot call."""


class TaskLimits(Struct, frozen=True, kw_only=True):
    """How many tasks there may be, and for how long."""

    most: int = 1_000
    each: int = 100
    """The tasks of one caller."""
    size: int = 64 * 1024 * 1024
    """Bytes of all results; beyond them those that ended first are forgotten."""
    keep: float = 3_600.0
    """Seconds that a task is known after it was begun; longer by the timeout of its tool."""
    poll: float = 1.0
    """Seconds after which it is worth asking again."""
    after: float = 120.0
    """A tool that may take longer than this is long, without saying so."""


class TaskEnding(Struct, frozen=True):
    """How a task ended: the result of its call, or the protocol error that it would have been answered with.

    Both can be written as they are.
    """

    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    cancelled: bool = False
    note: str = ""


class ServerTask:
    """One call that goes on by itself."""

    def __init__(self, id: str, owner: str, going: CallInProgress, *, ttl: float, poll: float, clock: Clock) -> None:
        self.id = id
        self.owner = owner
        self.ttl_ms: int = round(ttl * 1000)
        self.poll_ms: int = round(poll * 1000)
        self.ended: TaskEnding | None = None
        self.size: int = 0
        """Bytes of its result."""
        self.note: str = ""
        self.created: int = clock.now()
        self.updated: int = self.created
        self.until: float = clock.monotonic() + ttl
        self._clock = clock
        self._going = going
        self._watchers: dict[object, Callable[[], None]] = {}
        going.tell = self._hear
        if going.line is not None:
            going.line.on_change = self.changed

    @property
    def open(self) -> Mapping[str, Question]:
        """The questions that the task waits on."""
        return {} if self._going.line is None or self.ended is not None else self._going.line.open

    @property
    def status(self) -> Status:
        match self.ended:
            case None:
                return "input_required" if self.open else "working"
            case TaskEnding(cancelled=True):
                return "cancelled"
            case TaskEnding(error=dict()):
                return "failed"
        return "completed"

    def give(self, responses: Mapping[str, Any]) -> None:
        """Answers to what is open; anything else is not for it."""
        if self._going.line is not None and self.ended is None:
            self._going.line.give(responses)

    def cancel(self) -> None:
        """Ask it to stop. One that has ended stays as it ended."""
        if self.ended is None:
            self._going.cancel()

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` whenever it is another than before; what is returned ends that."""
        key = object()
        self._watchers[key] = changed
        return lambda: self._watchers.pop(key, None) and None

    def changed(self) -> None:
        self.updated = max(self._clock.now(), self.updated)
        for each in tuple(self._watchers.values()):
            each()

    def end(self, how: TaskEnding) -> None:
        self.ended, self.note = how, how.note
        self.size = 0 if how.result is None else len(msgspec.json.encode(how.result))
        self.changed()

    async def _hear(self, event: Event) -> None:
        if isinstance(event, CallProgress) and event.call_id == self._going.call.id and self.ended is None:
            self.note = event.stage or self.note
            self.changed()


class TaskStore:
    """The tasks of a server."""

    def __init__(
        self,
        limits: TaskLimits = TaskLimits(),
        *,
        clock: Clock | None = None,
        new_id: Callable[[], str] = lambda: secrets.token_urlsafe(32),
    ) -> None:
        self.limits = limits
        self._clock = clock or SystemClock()
        self._new_id = new_id
        self._tasks: dict[str, ServerTask] = {}
        self._endings: set[asyncio.Task[None]] = set()

    def has_room(self, owner: str) -> bool:
        self._sweep()
        own = sum(task.owner == owner for task in self._tasks.values())
        return len(self._tasks) < self.limits.most and own < self.limits.each

    def adopt(self, going: CallInProgress, timeout: float, ending: Callable[[], Awaitable[TaskEnding]]) -> ServerTask:
        """Make a task of a call that is under way; `ending` gives how it ended once it has.

        Raises:
            UsageError: There are too many. Ask `has_room` before.
        """
        if not self.has_room(going.owner):
            raise UsageError("there are too many tasks; let some of them end first")
        task = ServerTask(
            self._new_id(),
            going.owner,
            going,
            ttl=self.limits.keep + timeout,
            poll=self.limits.poll,
            clock=self._clock,
        )
        self._tasks[task.id] = task
        follow = asyncio.create_task(self._follow(task, going, ending))
        self._endings.add(follow)
        follow.add_done_callback(self._endings.discard)
        return task

    def find(self, id: str, owner: str) -> ServerTask | None:
        """The task of this id, if it is this caller's. Of another's nobody learns that it is there."""
        self._sweep()
        task = self._tasks.get(id)
        return task if task is not None and secrets.compare_digest(task.owner.encode(), owner.encode()) else None

    async def _follow(
        self, task: ServerTask, going: CallInProgress, ending: Callable[[], Awaitable[TaskEnding]]
    ) -> None:
        await going.wait()
        task.end(await ending())
        held = sum(each.size for each in self._tasks.values())
        for each in sorted((each for each in self._tasks.values() if each.size), key=lambda each: each.updated):
            if held <= self.limits.size:
                break
            held -= each.size
            del self._tasks[each.id]

    def _sweep(self) -> None:
        now = self._clock.monotonic()
        for task in [task for task in self._tasks.values() if task.until <= now]:
            del self._tasks[task.id]
            task.cancel()


def protocol_time(at: int) -> str:
    """Milliseconds since 1970 as the protocol writes times."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
