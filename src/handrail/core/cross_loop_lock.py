"""A lock for coroutines of any event loop of this process.

`asyncio.Lock` is for one loop only. Blocking sessions have a loop each, and share one terminal.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque


class CrossLoopLock:
    """Held with `async with`; who waits gets it in the order of asking."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        with self._guard:
            if not self._held:
                self._held = True
                return
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not self._withdrawn(turn):
                self._pass_on()  # the lock was handed over while the wait was cancelled
            raise

    async def __aexit__(self, *exc: object) -> None:
        self._pass_on()

    def _withdrawn(self, turn: asyncio.Future[None]) -> bool:
        with self._guard:
            if turn not in self._waiting:
                return False
            self._waiting.remove(turn)
            return True

    def _pass_on(self) -> None:
        while True:
            with self._guard:
                if not self._waiting:
                    self._held = False
                    return
                turn = self._waiting.popleft()
            try:
                turn.get_loop().call_soon_threadsafe(_wake, turn)
            except RuntimeError:
                continue  # its loop is closed: nobody waits there any more
            return


def _wake(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
