"""Handlers in worker processes that can be killed: a timeout is kept whatever the handler does, in C or out of it.

A worker is forked from a small clean server (`zygote.py`), stays warm between
calls and imports a tool's module once. A worker that is stopped takes with it
everything it has started. This bounds mistakes, not malice: a tool here has all
the rights of its user; the sandbox is the place for code that is not trusted.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any

from handrail.core.calls import Output
from handrail.core.errors import ToolError, UsageError
from handrail.core.framing import FrameError
from handrail.core.invocation import Invocation
from handrail.core.timeouts import time_limit
from handrail.execute.isolation.fork_server_host import ForkServerHandle, WorkerOwner, WorkerStarter
from handrail.execute.isolation.handler_target import check_guarded
from handrail.execute.isolation.worker_connection import WorkerConnection, WorkerLost
from handrail.execute.isolation.worker_frames import (
    MAY_HAVE,
    WORKER_LOST,
    Answer,
    Around,
    JobCrashed,
    current_surroundings,
    encode_job,
    exit_cause,
    output_of,
    worker_lost_error,
    worker_start_error,
    worker_timeout_error,
)
from handrail.execute.isolation.worker_limits import ProcessLimits
from handrail.tools.tool import Tool

_SECONDS_TO_DIE = 1.0
"""The time to wait for a killed process. The kernel may hold one longer, for example in a broken file system."""


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """The place in which the workers of a pool run."""

    start: Callable[[asyncio.AbstractEventLoop, WorkerOwner], WorkerStarter] = ForkServerHandle
    around: Callable[[], Around] = current_surroundings
    after: str = MAY_HAVE
    """What is to be said of the effects of work that was cut off."""
    calls: int | None = None
    """The calls that one worker answers before another takes its place."""


class ProcessPool:
    """Runs handlers in worker processes, as many at once as it is asked to; belongs to one event loop."""

    def __init__(
        self, limits: ProcessLimits = ProcessLimits(), idle: int = 2, place: WorkerPlace = WorkerPlace()
    ) -> None:
        self._limits = limits
        self._place = place
        self._keep = idle
        self._idle: deque[WorkerConnection] = deque()
        self._waiting: deque[asyncio.Future[WorkerConnection]] = deque()
        self._numbers = count(1)
        self._stops: set[asyncio.Task[bool]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: WorkerStarter | None = None
        self._closed = False

    async def run(
        self, tool: Tool, invocation: Invocation, arguments: dict[str, Any], timeout: float | None = None
    ) -> Output:
        """Call the handler with checked JSON arguments; they become its own types on the other side.

        The timeout covers everything: starting a worker, importing the tool's module, the work.

        Raises:
            ToolError: The tool raised it, or raised something else (code `failed`), or its worker ended
                (code `worker_lost`), or something that is not JSON would have had to cross (`cannot_cross`).
            TimedOut: Time was up, and the work is no more.
            InvalidDefinition: The handler cannot be imported by name.
            UsageError: The pool is closed, or belongs to another event loop.
        """
        number = next(self._numbers)
        job = encode_job(number, tool, invocation, arguments, self._limits, self._place.around())
        worker: WorkerConnection | None = None
        try:
            async with time_limit(timeout) as scope:
                worker = await self._take()
                answer = await self._ask(worker, number, job, invocation)
        except TimeoutError:
            if timeout is None or not scope.expired():
                raise
            started, ended = worker is not None, worker is None or worker.gone.done()
            raise worker_timeout_error(tool.name, timeout, self._place.after, started=started, ended=ended) from None
        return output_of(answer, tool.name, self._limits.memory_bytes, self._place.after)

    async def warm(self, workers: int | None = None) -> None:
        """Have workers ready, at most as many as are kept idle."""
        wanted = self._keep if workers is None else min(workers, self._keep)
        taken: list[WorkerConnection] = []
        try:
            while len(taken) < wanted:
                taken.append(await self._take())
        finally:
            for worker in taken:
                self.forked(worker)

    async def aclose(self) -> None:
        """Kill and reap everything. Calls in flight are answered `worker_lost`."""
        self._closed = True
        self._idle.clear()
        self._fail_waiting(ToolError(WORKER_LOST, "the process pool was closed before the tool could start"))
        if self._server is not None:
            await self._server.aclose()
            self._server = None
        if self._stops:
            await asyncio.wait(self._stops)

    async def __aenter__(self) -> ProcessPool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # What the fork server asks and tells: see `children.Owner`.

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def forked(self, worker: WorkerConnection) -> None:
        """A worker is free: for the first who waits, or to be kept."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(worker)
                return
        if len(self._idle) < self._keep and not self._closed:
            self._idle.append(worker)
        else:
            self._retire(worker)

    def not_forked(self, why: str) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(ToolError(WORKER_LOST, f"no worker process could be started: {why}"))
                return

    def exited(self, worker: WorkerConnection) -> None:
        if worker in self._idle:
            self._idle.remove(worker)

    def died(self, server: WorkerStarter) -> None:
        if self._server is server:
            self._server = None
        self._idle.clear()
        self._fail_waiting(WorkerLost())

    # One call.

    async def _take(self) -> WorkerConnection:
        """An idle worker, or a new one. If the fork server dies over it, another is tried, once."""
        for _ in range(2):
            server = self._started()
            while self._idle:
                if (worker := self._idle.pop()).is_there():
                    return worker
            waiter: asyncio.Future[WorkerConnection] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            if server.forking < len(self._waiting):
                server.fork()
            try:
                return await waiter
            except WorkerLost:
                continue
            except asyncio.CancelledError:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                elif not waiter.cancelled() and waiter.exception() is None:
                    self.forked(waiter.result())
                raise
        raise ToolError(
            WORKER_LOST, "no worker process could be started: the fork server ends at once; see its messages"
        )

    async def _ask(self, worker: WorkerConnection, number: int, job: bytes, invocation: Invocation) -> Answer:
        try:
            answer = await worker.ask(number, job, invocation.progress)
        except WorkerLost:
            await self._stop(worker, patient=True)
            if worker.last_words:
                raise worker_start_error(invocation.tool_name, worker.last_words) from None
            code = worker.gone.result() if worker.gone.done() else None
            why = "ended: the pool was closed" if self._closed else exit_cause(code, self._limits.cpu_seconds)
            raise worker_lost_error(invocation.tool_name, why, self._place.after) from None
        except FrameError as error:
            await self._stop(worker)
            why = f"answered with something unreadable ({error})"
            raise worker_lost_error(invocation.tool_name, why, self._place.after) from error
        except BaseException:
            await self._stop(worker)
            raise
        if self._is_spent(worker, answer):
            self._retire(worker)
        else:
            self.forked(worker)
        return answer

    def _is_spent(self, worker: WorkerConnection, answer: Answer) -> bool:
        calls = self._place.calls
        return (calls is not None and worker.asked >= calls) or (
            isinstance(answer, JobCrashed) and answer.out_of_memory
        )

    # Starting and stopping.

    def _started(self) -> WorkerStarter:
        loop = asyncio.get_running_loop()
        if self._closed:
            raise UsageError("the process pool is closed; make a new one")
        check_guarded()
        if self._loop not in (None, loop):
            raise UsageError("the process pool belongs to another event loop; close it there and make one per loop")
        self._loop = loop
        if self._server is None:
            self._server = self._place.start(loop, self)
        return self._server

    async def _stop(self, worker: WorkerConnection, *, patient: bool = False) -> None:
        """See a worker off. A caller that is cancelled meanwhile goes; the stopping goes on."""
        task = asyncio.get_running_loop().create_task(self._end(worker, patient=patient))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)
        await asyncio.shield(task)

    async def _end(self, worker: WorkerConnection, *, patient: bool) -> bool:
        if patient and await _within(worker.gone, _SECONDS_TO_DIE / 4):
            return True  # it was ending by itself; its exit code is the better answer
        if not patient:
            self._signal(worker, signal.SIGTERM)
            if await _within(worker.gone, self._limits.grace_seconds):
                return True
        self._signal(worker, signal.SIGKILL)
        return await _within(worker.gone, _SECONDS_TO_DIE)

    def _retire(self, worker: WorkerConnection) -> None:
        self._signal(worker, signal.SIGKILL)
        worker.close()

    def _signal(self, worker: WorkerConnection, number: int) -> None:
        if self._server is not None and not worker.gone.done():
            self._server.signal(worker, number)

    def _fail_waiting(self, error: Exception) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(error)


async def _within(gone: asyncio.Future[int | None], seconds: float) -> bool:
    done, _ = await asyncio.wait({gone}, timeout=seconds)
    return bool(done)
