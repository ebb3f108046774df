"""Many notices of a change taken for one, and a server that never stops sending them heard ever less often."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from handrail.core.ports import Clock

logger = logging.getLogger(__name__)

_LONGEST = 30.0
"""Seconds to which the wait may grow."""
_MOST = 1000
"""Different changes that are kept apart. Beyond that a server only makes names of resources up."""


class NoticeThrottle:
    def __init__(self, settle: float, on_change: Callable[[str], None], clock: Clock) -> None:
        self._settle = settle
        self._on_change = on_change
        self._clock = clock
        self._waiting: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, what: str) -> None:
        """Tell of it soon, once, however often it is added meanwhile."""
        if len(self._waiting) < _MOST or not what.startswith("resource:"):
            self._waiting[what] = None
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._tell(), name="handrail-mcp-notices")

    def tell(self, what: str) -> None:
        """Tell of it now."""
        try:
            self._on_change(what)
        except Exception:  # who listens must not take the connection down
            logger.exception("what listens to an MCP connection failed at %r", what)

    async def aclose(self) -> None:
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _tell(self) -> None:
        wait = self._settle
        await self._clock.sleep(wait)
        # In a storm there is always something new after the wait: each is twice as long as the last.
        while self._waiting:
            told, self._waiting = self._waiting, {}
            for what in told:
                self.tell(what)
            wait = min(wait * 2, _LONGEST)
            await self._clock.sleep(wait)
