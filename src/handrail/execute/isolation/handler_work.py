"""A running handler, and the one way to wait for it: the answer is on time whether or not the handler gives in."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from queue import SimpleQueue
from time import perf_counter
from types import TracebackType
from typing import Any, Literal

from handrail.core.errors import LimitReached, describe_exception
from handrail.execute.isolation.loop_watch import HELD, LoopWatch

Ending = Literal["done", "timeout", "cancelled"]

PATIENCE = 0.05
"""Seconds that timed-out work gets to end after it was told to, so that the answer can say it has."""


_AGES = 24 * 60 * 60.0
"""Seconds that time may be held where there is no deadline."""


class HandlerRaised(Exception):
    """A handler raised what must not travel through a task: `SystemExit`, `KeyboardInterrupt`, `CancelledError`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(describe_exception(error))


class HandlerWork:
    """A future for the handler's value, and whether it heeds being cancelled."""

    __slots__ = ("_deadline", "_held", "_left", "_steps", "_timer", "_told", "_waiter", "future", "late", "stoppable")

    def __init__(self, future: asyncio.Future[Any] | None = None) -> None:
        """Give a future that something else sets and calls `wake` for; it cannot be stopped from here."""
        self.stoppable = future is None
        self._steps: _HandlerSteps | None = None
        """An async handler, until its first step is taken."""
        self._told = False
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._held = 0
        self._left = 0.0
        """Seconds of its time, while that is held."""
        self._deadline: float | None = None
        self.late = 0.0
        """Seconds from when its time was up until anybody could look, because the loop was held; else not above 0."""
        if future is not None:
            self.future = future

    @classmethod
    def of(cls, start: Callable[[], Awaitable[Any]], watch: LoopWatch | None = None, tool: str = "") -> HandlerWork:
        """An async handler, which begins when it is waited for; `watch` is told for how long it holds the loop."""
        work = cls()
        work._steps = _HandlerSteps(work, start, watch, tool)
        return work

    @property
    def running(self) -> bool:
        return not self.future.done()

    @property
    def finished(self) -> bool:
        """Whether it came to an end of its own, in a value or an error."""
        return self.future.done() and not self.future.cancelled()

    @property
    def told(self) -> bool:
        """Whether it was told to stop."""
        return self._told

    def wake(self) -> None:
        """Tell whoever watches to look. Called as the work ends, which is a turn of the loop before its callbacks."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def hold(self, by: int) -> None:
        """Stop its time, or with -1 let it go on where it stopped. The deadline does not move."""
        self._held += by
        loop, timer = asyncio.get_running_loop(), self._timer
        if timer is None or self._held > 1 or (self._held == 1 and by < 0):
            return
        timer.cancel()
        if self._held:
            self._stop_time(loop, timer.when())
        else:
            self._timer = loop.call_at(min(loop.time() + self._left, timer.when()), self.wake)

    def _stop_time(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._left = due - loop.time()
        self._timer = loop.call_at(self._deadline or due + _AGES, self.wake)

    async def watch(
        self, timeout: float, grace: float, deadline: float | None = None, *, keeps_time: bool = False
    ) -> Ending:
        """Wait until it is done, time is up, or the caller is cancelled. Never raises.

        Its time can be held until the deadline, on the clock of the loop. Work that keeps its time by itself is waited
        for until it ends.

        On `timeout` and `cancelled` the work was told to stop and got a moment to;
        `finished` and `running` say what became of it. The caller passes its own
        cancellation on when it has recorded that.
        """
        self._deadline = deadline
        loop = asyncio.get_running_loop()
        due = loop.time() + timeout
        ending: Ending = "timeout"
        if self._steps is not None:
            self.future, self._steps = begin(self._steps, loop), None
        if not self.future.done():
            self._waiter = loop.create_future()
            if self._held:
                self._stop_time(loop, due)
            elif not keeps_time:
                self._timer = loop.call_at(due, self.wake)
            try:
                await self._waiter
            except asyncio.CancelledError:
                ending = "cancelled"
            if (timer := self._timer) is not None:
                timer.cancel()
                self._timer = None
                due = timer.when()  # it moves while time is held
        self.late = loop.time() - due
        if ending == "timeout" and self.future.done():
            return "done"
        await self._stop(PATIENCE if ending == "timeout" else grace)
        return ending

    async def _stop(self, seconds: float) -> None:
        if self.stoppable:
            self._told = True
            self.future.cancel()
        elif self.late < PATIENCE:
            return
        # Else a function has held the interpreter until now and is about to say what came of it.
        try:
            await asyncio.wait({self.future}, timeout=seconds)
        except asyncio.CancelledError:
            return  # cancelled once more: whoever calls is in more of a hurry than the work


def begin(steps: _HandlerSteps, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
    """Takes the first step of a handler here and now, as the task that goes on with it, and gives what has its value.

    A handler that never waits is done then, without a task, a turn of the loop or a timer. Code in the step finds
    itself in the task of the handler, as in any later one: what it begins there, as a time-out or a group of tasks,
    belongs to that.
    """
    caller = asyncio.current_task(loop)
    if caller is None or loop.get_task_factory() is not None:
        return loop.create_task(steps)
    context = contextvars.copy_context()
    task: asyncio.Task[Any]
    if type(loop).create_task is asyncio.BaseEventLoop.create_task:
        task = _TaskToBe(steps, loop, context)
    else:  # the loop has a say in how its tasks are made, and may keep them
        task = loop.create_task(steps, context=context)
    asyncio.tasks._leave_task(loop, caller)
    asyncio.tasks._enter_task(loop, task)
    try:
        done = context.run(steps.take_first, loop)
    finally:
        asyncio.tasks._leave_task(loop, task)
        asyncio.tasks._enter_task(loop, caller)
    if done is not None:
        return done
    return task.made() if isinstance(task, _TaskToBe) else task


class _HandlerTask(asyncio.Task[Any]):
    """The task of a handler."""


class _TaskToBe(_HandlerTask):
    """The task of a handler during its first step. It is made when that step waits, or anybody looks at it, as a
    time-out does: for a handler that does neither, nothing is scheduled or registered."""

    def __init__(self, steps: _HandlerSteps, loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> None:
        self._given = steps, loop, context  # `Task.__init__` would schedule it: `made` calls that

    def made(self) -> asyncio.Task[Any]:
        """The same object as a task like any other."""
        steps, loop, context = object.__getattribute__(self, "_given")
        del self._given
        self.__class__ = _HandlerTask  # type: ignore[assignment]  # its base, of the same layout
        asyncio.Task.__init__(self, steps, loop=loop, context=context)
        return self

    def __getattribute__(self, name: str) -> Any:
        if name != "made":
            _TaskToBe.made(self)
        return object.__getattribute__(self, name)

    def __await__(self) -> Any:
        return self.made().__await__()

    def __repr__(self) -> str:
        return repr(self.made())


_NOT_TAKEN: Any = object()
"""Stands for what the first step waits for, if that step was not taken ahead of the task or its task has seen it."""


class _HandlerSteps(Coroutine[Any, Any, Any]):
    """The coroutine of a handler's task: it contains what the handler raises, and measures each step from one `await`
    to the next. A class, because a coroutine around the handler's could not see its steps."""

    __slots__ = ("_coroutine", "_ended", "_first", "_start", "_tool", "_watch", "_work")

    def __init__(
        self, work: HandlerWork, start: Callable[[], Awaitable[Any]], watch: LoopWatch | None, tool: str
    ) -> None:
        self._work = work
        self._start = start
        self._watch = watch
        self._tool = tool
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self._first: Any = _NOT_TAKEN
        """What the first step waits for, if it was taken before its task runs."""
        self._ended = False
        """Whether the first step was the last."""

    def take_first(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any] | None:
        """The first step, ahead of the task; a future of what came of it, if it was the last."""
        try:
            self._first = self.send(None)
        except StopIteration as end:
            done = loop.create_future()
            done.set_result(end.value)
        except Exception as error:
            done = loop.create_future()
            done.set_exception(error)
            done.exception()  # it is seen to, though its answer may be given without it
        else:
            return None
        self._ended = True
        return done

    def send(self, value: Any) -> Any:
        if self._ended:
            raise StopIteration
        if (first := self._first) is not _NOT_TAKEN:
            self._first = _NOT_TAKEN
            if first is not None:
                return first  # for the task to wait for
        began = perf_counter()
        if (coroutine := self._coroutine) is None:
            coroutine = self._coroutine = _started(self._start)
        try:
            return coroutine.send(value)
        except Exception:  # a StopIteration brings the value
            self._end().wake()
            raise
        except BaseException as error:
            raise self._contained(error) from error
        finally:
            if perf_counter() - began > HELD:
                self._tell(perf_counter() - began)

    def throw(self, kind: Any, value: Any = None, trace: TracebackType | None = None) -> Any:
        if self._ended:
            raise StopIteration
        if (first := self._first) is not _NOT_TAKEN:
            self._first = _NOT_TAKEN
            if first is not None and first.cancel():  # as if the task had waited for it when it was cancelled
                return first
        began = perf_counter()
        if (coroutine := self._coroutine) is None:
            coroutine = self._coroutine = _started(self._start)
        try:
            return coroutine.throw(kind)
        except Exception:
            self._end().wake()
            raise
        except BaseException as error:
            raise self._contained(error) from error
        finally:
            if perf_counter() - began > HELD:
                self._tell(perf_counter() - began)

    def _contained(self, error: BaseException) -> BaseException:
        work = self._end()
        work.wake()
        return error if work.told and isinstance(error, asyncio.CancelledError) else HandlerRaised(error)

    def _end(self) -> HandlerWork:
        """Let go of the work, which holds the task, which holds this: a circle would wait for the garbage collector."""
        work = self._work
        del self._work, self._start
        return work

    def _tell(self, seconds: float) -> None:
        if self._watch is not None:
            self._watch.held(repr(self._tool), seconds)

    def close(self) -> None:
        if self._coroutine is not None:
            self._coroutine.close()

    def __await__(self) -> Any:
        raise TypeError("this is for a task, which takes its steps")


async def _started(start: Callable[[], Awaitable[Any]]) -> Any:
    return await start()


class StragglingWork:
    """Work that was answered for and goes on. It cannot be stopped, so there may only be so much of it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[asyncio.Future[Any], tuple[Hashable, str]] = {}
        """What the call is equal to, and its id."""

    def __bool__(self) -> bool:
        return bool(self._running)

    def add(
        self, work: HandlerWork, identity: Hashable, call: str, on_end: Callable[[asyncio.Future[Any]], None]
    ) -> None:
        """Count work that goes on; `identity` is the same for equal calls."""
        self._running[work.future] = (identity, call)
        work.future.add_done_callback(self._discard)
        work.future.add_done_callback(on_end)

    def _discard(self, future: asyncio.Future[Any]) -> None:
        self._running.pop(future, None)

    def find(self, identity: Hashable) -> str | None:
        """The id of an equal call that still runs."""
        return next((call for other, call in self._running.values() if other == identity), None)

    def check(self, tool: str) -> None:
        """Refuse one more that might join them.

        Raises:
            LimitReached: With what to do about it.
        """
        if len(self._running) >= self._most:
            raise LimitReached(
                f"{tool!r} was not started: {len(self._running)} timed-out calls are still running and cannot be "
                "stopped; give such tools isolation='process', where they can be"
            )


_Job = tuple[Callable[[], Any], HandlerWork, contextvars.Context]


class HandlerThreads:
    """Grows by a thread when none is idle; how many run at once is the executor's business, not ours."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.RLock()  # a finalizer may close it in the middle of its own work
        self._idle = 0
        """Threads that wait, and that no job was promised to."""
        self._closed = False

    def start(self, function: Callable[[], Any]) -> HandlerWork:
        """Run a function in a thread. It cannot be stopped from outside: Python has no safe way to.

        Raises:
            LimitReached: The machine has no more threads; the function is not run.
        """
        work = HandlerWork(asyncio.get_running_loop().create_future())
        with self._lock:
            grow = self._idle == 0
            if not grow:
                self._idle -= 1
        if grow:
            self._grow()
        self._jobs.put((function, work, contextvars.copy_context()))
        return work

    def _grow(self) -> None:
        try:
            threading.Thread(target=self._serve, name="handrail-tool", daemon=True).start()
        except RuntimeError as error:
            raise LimitReached(f"the tool was not started: {error}; call it again when others have ended") from error

    def close(self) -> None:
        """Let idle threads end. One that is still in a function ends after it; so does one that is started later."""
        with self._lock:
            self._closed = True
            for _ in range(self._idle):
                self._jobs.put(None)
            self._idle = 0

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, work, context = job
            value, error = _outcome(function, context)
            with self._lock:
                ends = self._closed
                self._idle += not ends
            _deliver(work, value, error)
            if ends:
                return
            del job, function, work, context, value, error  # keep nothing alive while idle


def _outcome(function: Callable[[], Any], context: contextvars.Context) -> tuple[Any, BaseException | None]:
    try:
        return context.run(function), None
    except StopIteration as error:  # a future refuses to carry it
        return None, HandlerRaised(error)
    except Exception as error:
        return None, error
    except BaseException as error:  # SystemExit and its like end a call here, not the program
        return None, HandlerRaised(error)


def _deliver(work: HandlerWork, value: Any, error: BaseException | None) -> None:
    future = work.future

    def settle() -> None:
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
        work.wake()

    try:
        future.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:
        return  # the loop is closed: the program has gone on without this answer
