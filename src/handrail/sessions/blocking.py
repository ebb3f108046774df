"""A blocking facade over async work. It opens at the first use and closes with its owner, which has a sync and an async
end.

All doors of a process lead to one event loop in one thread, which ends when the last of them is closed. So a session
that blocks costs no thread of its own, and what sessions share (connections, journals, ensembles) works in one loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import aclosing
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Self, TypeVar

from handrail.core.errors import UsageError
from handrail.core.events import Emit, Event
from handrail.sync import Portal

T = TypeVar("T")


class _SharedPortal:
    """The one `Portal` of a process, while anybody uses it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may leave in the middle of a join
        self._portal: Portal | None = None
        self._users = 0

    def join(self) -> Portal:
        with self._lock:
            self._users += 1
            if self._portal is None or self._portal.closed:
                self._portal, self._users = Portal(), 1
            return self._portal

    def leave(self, portal: Portal) -> None:
        with self._lock:
            if portal is self._portal:
                self._users -= 1
                if self._users:
                    return
                self._portal = None
        portal.close()

    def is_here(self) -> bool:
        """Whether the caller runs in its loop."""
        return self._portal is not None and self._portal.is_here()


_shared = _SharedPortal()


class LazyPortal:
    """A `Portal` at need: a program that only awaits never has the thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portal: Portal | None = None
        self._finalizer: weakref.finalize[[Portal], LazyPortal] | None = None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop behind this door, and wait.

        Raises:
            UsageError: The caller runs in that loop, and would wait for itself.
        """
        try:
            portal = self._opened()
        except BaseException:
            work.close()
            raise
        return portal.call(work)

    def iterate(self, events: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """What an async generator yields; it is closed when the iteration ends, at its end or before."""
        items: queue.SimpleQueue[T | _End] = queue.SimpleQueue()
        portal = self._opened()
        task = portal.call(_started(_pump(events, items)))
        try:
            while not isinstance(item := items.get(), _End):
                yield item
            if item.error is not None:
                raise item.error
        finally:
            if not portal.closed:  # what was under way has ended then
                portal.call(_stopped(task))

    def call_listening(self, work: Callable[[Emit], Coroutine[Any, Any, T]], listener: Callable[[Event], Any]) -> T:
        """Run it in the loop behind this door, and wait; the listener is called here, in the caller's thread.

        The work goes on with each event when the listener has heard it. What the listener raises, the work meets where
        it told the event. So a listener that takes its time holds up its own work and nobody else's.
        """
        items: queue.SimpleQueue[tuple[Event, asyncio.Future[Any]] | None] = queue.SimpleQueue()
        portal = self._opened()

        async def emit(event: Event) -> None:
            heard: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            items.put((event, heard))
            if isawaitable(done := await heard):
                await done

        task = portal.call(_started(work(emit), lambda: items.put(None)))
        try:
            while (item := items.get()) is not None:
                event, heard = item
                try:
                    done, error = listener(event), None
                except Exception as raised:
                    done, error = None, raised
                heard.get_loop().call_soon_threadsafe(_answer, heard, done, error)
        except BaseException:
            if not portal.closed:
                portal.call(_stopped(task))
            raise
        if task.cancelled():
            raise UsageError("this was closed before its end")
        return task.result()

    def is_here(self) -> bool:
        """Whether the caller runs in the loop behind this door."""
        return self._portal is not None and self._portal.is_here()

    def _opened(self) -> Portal:
        with self._lock:
            if self._portal is None or self._portal.closed:
                # Code in the shared loop that blocks on something else than itself needs another loop to do it.
                self._portal = Portal() if _shared.is_here() else _shared.join()
                self._finalizer = weakref.finalize(self, _close, self._portal)
            if self.is_here():
                raise UsageError("this would wait for itself: inside async code, await the async form instead")
            return self._portal

    def close(self) -> None:
        """Let go of the loop and its thread. The next call opens them again."""
        with self._lock:
            self._portal = None
            if self._finalizer is not None:
                self._finalizer()
                self._finalizer = None


class Closable(ABC):
    """Ends by `close()` or by `aclose()`, and with its block: by whichever the program around it can use."""

    portal: LazyPortal

    @abstractmethod
    async def aclose(self) -> None: ...

    def close(self) -> None:
        self.portal.call(self.aclose())
        self.portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def _close(portal: Portal) -> None:
    # Collected in its own thread, it can only be told to stop: a thread cannot wait for itself.
    with contextlib.suppress(RuntimeError):
        _shared.leave(portal)


@dataclass(frozen=True, slots=True)
class _End:
    error: Exception | None


async def _pump(events: AsyncGenerator[T, None], items: queue.SimpleQueue[T | _End]) -> None:
    """Runs in one task from first to last: what holds a timeout across a `yield` cannot change tasks."""
    error: Exception | None = None
    try:
        async with aclosing(events):
            async for event in events:
                items.put(event)
    except Exception as failure:
        error = failure
    except asyncio.CancelledError:
        error = UsageError("this was closed before its end")
        raise
    finally:
        items.put(_End(error))


async def _started(work: Coroutine[Any, Any, T], on_end: Callable[[], None] = lambda: None) -> asyncio.Task[T]:
    task = asyncio.create_task(work)
    task.add_done_callback(lambda _: on_end())
    return task


def _answer(heard: asyncio.Future[Any], done: Any, error: Exception | None) -> None:
    if heard.done():  # whoever told the event was cancelled
        return
    if error is None:
        heard.set_result(done)
    else:
        heard.set_exception(error)


async def _stopped(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
