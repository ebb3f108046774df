"""A blocking door to async work that is opened when it is first used and closed with its owner, who has two ends."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from handrail.core.errors import UsageError
from handrail.sync import Portal

T = TypeVar("T")


class LazyPortal:
    """A `Portal` at need: a program that only awaits never has the thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portal: Portal | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
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
        task = self.call(_started(_pump(events, items)))
        try:
            while not isinstance(item := items.get(), _End):
                yield item
            if item.error is not None:
                raise item.error
        finally:
            self.call(_stopped(task))

    def is_here(self) -> bool:
        """Whether the caller runs in the loop behind this door."""
        return self._loop is not None and _current_loop() is self._loop

    def _opened(self) -> Portal:
        with self._lock:
            if self._portal is None:
                self._portal = Portal()
                self._loop = self._portal.call(_running_loop())
                self._finalizer = weakref.finalize(self, _close, self._portal)
            if self.is_here():
                raise UsageError("this would wait for itself: inside async code, await the async form instead")
            return self._portal

    def close(self) -> None:
        """Stop the loop and its thread. The next call opens another."""
        with self._lock:
            self._portal = self._loop = None
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
        portal.close()


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@dataclass(frozen=True, slots=True)
class _End:
    error: Exception | None


async def _pump(events: AsyncGenerator[T, None], items: queue.SimpleQueue[T | _End]) -> None:
    """In one task from first to last: what holds a timeout across a `yield` cannot change tasks."""
    error = None
    try:
        async with aclosing(events):
            async for event in events:
                items.put(event)
    except Exception as failure:
        error = failure
    finally:
        items.put(_End(error))


async def _started(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work)


async def _stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
