"""What arrives for one call, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """What arrived for one call, read with a bound on time."""

    __slots__ = ("_items", "_loop", "_waiter")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: deque[T] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: T) -> None:
        self._items.append(item)
        self._wake()

    async def get(self, seconds: float) -> T | None:
        """The next one, or None if there was none for so long."""
        if not self._items:
            self._waiter = self._loop.create_future()
            late = self._loop.call_later(max(seconds, 0.0), self._wake)
            try:
                await self._waiter
            finally:
                late.cancel()
                self._waiter = None
        return self._items.popleft() if self._items else None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
