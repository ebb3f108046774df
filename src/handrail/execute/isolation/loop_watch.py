"""Watches the event loop: measures how long tools block everything else, and names those that do.

A tool in the loop holds it from one `await` to the next, which is measured step by step. A tool in a thread holds it
by keeping the interpreter to itself, as a regular expression or a large multiplication does: then a timer of the loop
is late, and the tools that ran in threads meanwhile are named. Nothing here can stop them; a process can.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from msgspec import Struct

logger = logging.getLogger(__name__)

HELD = 0.1
"""Seconds for which one step may hold the loop before that is noted, for answers that come late because of it."""
_LOOKS = 0.25
"""Seconds between two looks of the timer, while threads work; it notes being as late as that."""
LOGGED = 1.0
"""Seconds for which the loop may be held before the log is told: on a busy machine every tool takes longer."""


class LoopHold(Struct, frozen=True):
    """A time in which the event loop could do nothing, on the clock of the loop."""

    by: str
    """The tool, or the tools of which one did it, in words."""
    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.by} held the event loop for {self.end - self.start:.1f} s"


class LoopWatch:
    """Belongs to one event loop. It costs two readings of the clock for each step of a tool in the loop, and one timer
    every quarter of a second while tools run in threads."""

    def __init__(self) -> None:
        self._last: LoopHold | None = None
        self._threads: dict[asyncio.Future[Any], str] = {}
        """The tools that run in threads now, by the future of their value."""
        self._seen: set[str] = set()
        """The tools that have run since the timer was last on time."""
        self._armed = False

    def began(self, work: asyncio.Future[Any], tool: str) -> None:
        """A tool has begun in a thread."""
        self._threads[work] = tool
        self._seen.add(tool)
        if not self._armed:
            self._arm(asyncio.get_running_loop())

    def ended(self, work: asyncio.Future[Any]) -> None:
        """Note that the work of a thread has ended, on time or late."""
        self._threads.pop(work, None)

    def close(self) -> None:
        """Look no more."""
        self._threads.clear()
        self._seen.clear()

    def cause(self, since: float) -> str:
        """What held the loop at that time or later, in words; empty if nobody is known to have."""
        return str(self._last) if self._last is not None and self._last.end > since else ""

    def held(self, by: str, seconds: float) -> None:
        """Note that the loop was held until now, and tell the log if it was for long."""
        now = asyncio.get_running_loop().time()
        self._last = LoopHold(by, now - seconds, now)
        if seconds >= LOGGED:
            logger.warning("%s, and no other call could go on; give it isolation='process'", self._last)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._armed = True
        loop.call_later(_LOOKS, self._look, loop, loop.time() + _LOOKS)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._armed = False
        late = loop.time() - due
        if late > _LOOKS and not self.cause(due) and self._seen:
            names = sorted(map(repr, self._seen))
            self.held(names[0] if len(names) == 1 else f"one of {', '.join(names)}", late)
        self._seen = set(self._threads.values())
        if self._threads:
            self._arm(loop)
