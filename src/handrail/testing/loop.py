"""An event loop with a clock of its own, in which a seed decides who goes first.

Time stands still while anything can go on and then jumps to the next timer, so a test
of minutes takes none. Of the callbacks that are ready, any may come next: what holds
under every seed does not hold by luck. It knows no sockets and no processes; what is
sent to a thread is done at once, where it was sent from.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from itertools import count
from random import Random
from typing import Any, TypeVar, TypeVarTuple, Unpack

from handrail.core.errors import HandrailError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class LoopStuck(HandrailError):
    """Everybody waits for somebody else."""


class LoopStopped(HandrailError):
    """The loop was stopped before the work was done, as a process that is killed stops."""


class SeededLoop(asyncio.BaseEventLoop):
    """`SeededLoop(seed).run(main())`, again and again: the same seed gives the same order."""

    def __init__(self, seed: int | str = 0, *, patience: float = 0.0) -> None:
        """`patience` is for how many seconds, real ones, a thread may be waited for when nothing else can go on."""
        self._goes_on = self._told_to_stop = self._is_closed = False
        super().__init__()
        self._chance = Random(seed)
        self._patience = patience
        self._able: list[asyncio.Handle] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._now = 0.0
        self._held = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._spoken = threading.Condition()
        """Guards what is ready, and tells of what a thread has added."""
        self.failures: list[str] = []
        """What would have been logged: exceptions that nobody took."""

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Do it to its end, then end what it left behind.

        Raises:
            Stopped: `stop` was called first. Call `bury` when what was under way may be taken down.
            Stuck: It can never end.
        """
        task: asyncio.Task[T] = self.create_task(main)
        self._go_on(task.done)
        if not task.done():
            raise LoopStopped("the loop was stopped before the work was done")
        self.bury()
        return task.result()

    def bury(self) -> None:
        """End every task that is left, by cancelling it as often as it takes."""
        for _ in range(100):
            left = [task for task in self._tasks if not task.done()]
            if not left:
                break
            for task in left:
                task.cancel()
            try:
                self._go_on(partial(_are_done, left))
            except LoopStuck:
                continue
        self.close()

    def _go_on(self, until: Callable[[], bool]) -> None:
        self._goes_on, self._told_to_stop = True, False
        asyncio._set_running_loop(self)
        try:
            while not until() and not self._told_to_stop:
                self._next()._run()
        finally:
            asyncio._set_running_loop(None)
            self._goes_on = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no time pass meanwhile: a thread is at work, and its time is real."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def _next(self) -> asyncio.Handle:
        while True:
            with self._spoken:
                while self._able:
                    at = self._chance.randrange(len(self._able))
                    self._able[at], self._able[-1] = self._able[-1], self._able[at]
                    handle = self._able.pop()
                    if not handle.cancelled():
                        return handle
                if (self._held or not self._timers) and self._spoken.wait(self._patience):
                    continue
                if not self._timers:
                    raise LoopStuck("nothing is ready, no timer is set, and the work is not done")
            self._pass_time()

    def _pass_time(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if self._timers:
            self._now = max(self._now, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now:
            self._able.append(heapq.heappop(self._timers)[2])

    # ── what asyncio asks of a loop ──────────────────────────────────────────────────

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        with self._spoken:
            self._able.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._is_closed:
            raise RuntimeError("the event loop is closed")
        handle = self.call_soon(callback, *args, context=context)
        with self._spoken:
            self._spoken.notify_all()
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is passed over when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **options)
        self._tasks = [each for each in self._tasks if not each.done()] if len(self._tasks) > 64 else self._tasks
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def stop(self) -> None:
        """Do nothing more after what is being done now."""
        self._told_to_stop = True

    def close(self) -> None:
        self._is_closed = True
        self._able.clear()
        self._timers.clear()

    def is_running(self) -> bool:
        return self._goes_on

    def is_closed(self) -> bool:
        return self._is_closed

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")


def _are_done(tasks: list[asyncio.Task[Any]]) -> bool:
    return all(task.done() for task in tasks)


class LoopClock:
    """A `Clock` with the time of the event loop in which it is used."""

    def __init__(self, start: int = 1_700_000_000_000) -> None:
        self._start = start

    def now(self) -> int:
        return self._start + round(self.monotonic() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
