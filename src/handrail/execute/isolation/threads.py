"""Plain functions, off the event loop, in daemon threads that a finished program does not wait for."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from handrail.core.errors import LimitReached
from handrail.execute.isolation.handler_work import HandlerRaised, HandlerWork

_Job = tuple[Callable[[], Any], HandlerWork, contextvars.Context]


class HandlerThreads:
    """Grows by a thread when none is idle; how many run at once is the executor's business, not ours."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
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
