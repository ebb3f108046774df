"""The life of a node: whether it takes calls, which are under way, and how they end when it does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Literal, Protocol

from handrail.core.errors import BusError
from handrail.core.timeouts import time_limit

AGAIN_MS = 1_000
"""After which who is turned away may ask again."""
Phase = Literal["starting", "ready", "draining"]


class EndableWork(Protocol):
    """Something under way that can be told to end. It still says how it ended to whoever listens."""

    def end(self) -> None: ...


class NodeLifecycle:
    """The life of one served node; everything that runs in it is entered here."""

    def __init__(self) -> None:
        self.phase: Phase = "starting"
        self.over: asyncio.Event = asyncio.Event()
        """Set when those that still ask are to be left alone."""
        self.on_drain: list[Callable[[], None]] = []
        """Called when no more calls are taken: what only listens need not be waited for."""
        self._under_way: set[EndableWork] = set()
        self._requests = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def check(self) -> None:
        """Refuses a call, with a `BusError` (`partition`), once the node ends and no call is begun any more."""
        if self.phase == "draining":
            raise BusError("partition", "the node is ending; ask another", retry_after_ms=AGAIN_MS)

    def begin(self, call: EndableWork) -> None:
        self._under_way.add(call)
        self._idle.clear()

    def ended(self, call: EndableWork) -> None:
        self._under_way.discard(call)
        self._look()

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Held while a request is answered."""
        self._requests += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._requests -= 1
            self._look()

    async def drain(self, grace: float) -> None:
        """Take no more calls, let those under way end, and after so many seconds end them; each is answered."""
        self.phase = "draining"
        for told in self.on_drain:
            told()
        if not await self._quiet(grace):
            for call in tuple(self._under_way):
                call.end()
            await self._quiet(max(1.0, grace / 2))
        self.over.set()

    def _look(self) -> None:
        if not self._requests and not self._under_way:
            self._idle.set()

    async def _quiet(self, seconds: float) -> bool:
        try:
            async with time_limit(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True
