"""Handlers in worker processes that can be killed: a timeout is kept whatever the handler does, in C or out of it.

A worker is forked from a small clean server (`zygote.py`), stays warm between
calls and imports a tool's module once. A worker that is stopped takes with it
everything it has started. This bounds mistakes, not malice: a tool here has all
the rights of its user; the sandbox is the place for code that is not trusted.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any

import msgspec

from handrail.core.calls import Output
from handrail.core.context import Live
from handrail.core.errors import ToolError, UsageError
from handrail.core.frames import FRAME_LIMIT, FrameError, frame
from handrail.core.invocation import Invocation
from handrail.execute.isolation.answers import WORKER_LOST, cause, lost, output_of, timed_out
from handrail.execute.isolation.children import Worker, WorkerLost, Zygote
from handrail.execute.isolation.frames import Answer, Crashed, Job, foreign
from handrail.execute.isolation.target import MAIN, target_of
from handrail.tools.tool import Tool

_SECONDS_TO_DIE = 1.0
"""How long a killed process is waited for. The kernel may hold one longer, in a broken file system say."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    memory_bytes: int | None = 2**30
    """Address space that a worker may add to what it starts with. Kept on Linux; elsewhere there is no limit."""
    cpu_seconds: float | None = None
    """Processor time for one call, rounded up to whole seconds. What the tool starts has the same again."""
    grace_seconds: float = 0.05
    """Between SIGTERM, which lets a tool's `finally` blocks run, and SIGKILL."""
    frame_bytes: int = FRAME_LIMIT
    """The largest arguments and the largest result that may cross."""


class ProcessPool:
    """Runs handlers in worker processes, as many at once as it is asked to; belongs to one event loop."""

    def __init__(self, limits: ProcessLimits = ProcessLimits(), idle: int = 2) -> None:
        self._limits = limits
        self._keep = idle
        self._idle: deque[Worker] = deque()
        self._waiting: deque[asyncio.Future[Worker]] = deque()
        self._numbers = count(1)
        self._stops: set[asyncio.Task[bool]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._zygote: Zygote | None = None
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
        job = self._job(number, tool, invocation, arguments)
        worker: Worker | None = None
        try:
            async with asyncio.timeout(timeout) as scope:
                worker = await self._take()
                answer = await self._ask(worker, number, job, invocation)
        except TimeoutError:
            if timeout is None or not scope.expired():
                raise
            started, ended = worker is not None, worker is None or worker.gone.done()
            raise timed_out(tool.name, timeout, started=started, ended=ended) from None
        return output_of(answer, tool.name, self._limits.memory_bytes)

    async def warm(self, workers: int | None = None) -> None:
        """Have workers ready, at most as many as are kept idle."""
        wanted = self._keep if workers is None else min(workers, self._keep)
        taken: list[Worker] = []
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
        if self._zygote is not None:
            await self._zygote.aclose()
            self._zygote = None
        if self._stops:
            await asyncio.wait(self._stops)

    async def __aenter__(self) -> ProcessPool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # What the fork server tells: see `children.Owner`.

    def forked(self, worker: Worker) -> None:
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

    def not_forked(self, error: OSError) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(ToolError(WORKER_LOST, f"no worker process could be started: {error.strerror}"))
                return

    def exited(self, worker: Worker) -> None:
        if worker in self._idle:
            self._idle.remove(worker)

    def died(self, zygote: Zygote) -> None:
        if self._zygote is zygote:
            self._zygote = None
        self._idle.clear()
        self._fail_waiting(WorkerLost())

    # One call.

    def _job(self, number: int, tool: Tool, invocation: Invocation, arguments: dict[str, Any]) -> bytes:
        context = msgspec.structs.replace(
            invocation.context,
            token=None,
            held=(),  # live objects; a worker makes no calls of its own, so nobody there asks for them
            auxdata={key: value for key, value in invocation.context.auxdata.items() if not isinstance(value, Live)},
            namespace=dict(invocation.context.namespace),
        )
        job = Job(
            number=number,
            target=target_of(tool),
            style=tool.style or "arguments",
            typed=tool.shape is not None,
            call_id=invocation.id,
            tool_name=invocation.tool_name,
            arguments=arguments,
            context=context,
            idempotency_key=invocation.idempotency_key,
            path=tuple(sys.path),
            directory=_directory(),
            memory_bytes=self._limits.memory_bytes,
            cpu_seconds=self._limits.cpu_seconds,
            frame_limit=self._limits.frame_bytes,
        )
        try:
            for name, value in (
                ("arguments", arguments),
                ("auxdata", context.auxdata),
                ("namespace", context.namespace),
            ):
                if (odd := foreign(value, name)) is not None:
                    raise FrameError(f"only JSON can cross, and {odd}")
            return frame(job, self._limits.frame_bytes)
        except (FrameError, RecursionError) as error:
            raise ToolError("cannot_cross", f"{tool.name!r} runs in another process: {error}") from error

    async def _take(self) -> Worker:
        """An idle worker, or a new one. If the fork server dies over it, another is tried, once."""
        for _ in range(2):
            zygote = self._started()
            while self._idle:
                if (worker := self._idle.pop()).is_there():
                    return worker
            waiter: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            if zygote.forking < len(self._waiting):
                zygote.fork()
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

    async def _ask(self, worker: Worker, number: int, job: bytes, invocation: Invocation) -> Answer:
        try:
            answer = await worker.ask(number, job, invocation.progress)
        except WorkerLost:
            await self._stop(worker, patient=True)
            code = worker.gone.result() if worker.gone.done() else None
            why = "ended: the pool was closed" if self._closed else cause(code, self._limits.cpu_seconds)
            raise lost(invocation.tool_name, why) from None
        except FrameError as error:
            await self._stop(worker)
            raise lost(invocation.tool_name, f"answered with something unreadable ({error})") from error
        except BaseException:
            await self._stop(worker)
            raise
        if isinstance(answer, Crashed) and answer.out_of_memory:
            self._retire(worker)
        else:
            self.forked(worker)
        return answer

    # Starting and stopping.

    def _started(self) -> Zygote:
        loop = asyncio.get_running_loop()
        if self._closed:
            raise UsageError("the process pool is closed; make a new one")
        if MAIN in sys.modules:
            raise UsageError(
                "a worker process tried to start workers of its own while loading the program's main file; put what "
                "the program does under: if __name__ == '__main__'"
            )
        if self._loop not in (None, loop):
            raise UsageError("the process pool belongs to another event loop; close it there and make one per loop")
        self._loop = loop
        if self._zygote is None:
            self._zygote = Zygote(loop, self)
        return self._zygote

    async def _stop(self, worker: Worker, *, patient: bool = False) -> None:
        """See a worker off. A caller that is cancelled meanwhile goes; the stopping goes on."""
        task = asyncio.get_running_loop().create_task(self._end(worker, patient=patient))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)
        await asyncio.shield(task)

    async def _end(self, worker: Worker, *, patient: bool) -> bool:
        if patient and await _within(worker.gone, _SECONDS_TO_DIE / 4):
            return True  # it was ending by itself; its exit code is the better answer
        if not patient:
            self._signal(worker, signal.SIGTERM)
            if await _within(worker.gone, self._limits.grace_seconds):
                return True
        self._signal(worker, signal.SIGKILL)
        return await _within(worker.gone, _SECONDS_TO_DIE)

    def _retire(self, worker: Worker) -> None:
        self._signal(worker, signal.SIGKILL)
        worker.close()

    def _signal(self, worker: Worker, number: int) -> None:
        if self._zygote is not None and not worker.gone.done():
            self._zygote.signal(worker, number)

    def _fail_waiting(self, error: Exception) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(error)


async def _within(gone: asyncio.Future[int | None], seconds: float) -> bool:
    done, _ = await asyncio.wait({gone}, timeout=seconds)
    return bool(done)


def _directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None  # it was removed; the worker keeps its own
