"""One cell while it runs: its clock, its calls to the host, and why it is being ended, once it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from handrail.core.framing import FrameError
from handrail.sandbox.kernel.messages import CellHostCall

Cause = Literal["timeout", "output", "calls", "cancelled"]


class RunningCell:
    """The clock runs while the cell does, and stands still while the host is at work for it.

    The first reason to end the cell counts. It is interrupted; if it has not ended within the grace, it is killed.
    """

    def __init__(
        self, number: int, *, seconds: float, grace: float, interrupt: Callable[[int], None], kill: Callable[[], None]
    ) -> None:
        self.number = number
        self.calls = 0
        self.unanswered: CellHostCall | None = None
        self.cause: Cause | None = None
        self.is_refused = False
        """It asked the host again although it is being ended."""
        self.seconds = 0.0
        self._limit = seconds
        self._grace = grace
        self._interrupt = interrupt
        self._kill = kill
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._killer: asyncio.TimerHandle | None = None

    def go(self) -> None:
        self._since = self._loop.time()
        self._timer = self._loop.call_later(max(self._limit - self.seconds, 0.0), self.end, "timeout")

    def stop(self) -> None:
        self.seconds += self._loop.time() - self._since
        if self._timer is not None:
            self._timer.cancel()

    def end(self, cause: Cause) -> None:
        if self.cause is not None:
            return
        self.cause = cause
        self._interrupt(self.number)
        self._killer = self._loop.call_later(self._grace, self._kill)

    def close(self) -> None:
        if self._killer is not None:
            self._killer.cancel()

    def take(self, call: CellHostCall) -> None:
        """
        Raises:
            FrameError: It is not the next call of this cell.
        """
        if (call.cell, call.call) != (self.number, self.calls + 1):
            raise FrameError("it asked the host out of turn")
        self.calls += 1
        self.unanswered = call
