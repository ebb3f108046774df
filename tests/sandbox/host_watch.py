"""How the host fares while something is run that wants to bring it down."""

from __future__ import annotations

import asyncio
import time
from typing import Self

from handrail.sandbox.port import Repl
from tests.processes import kept_waiting, own_memory


class HostWatch:
    """Looks at this process again and again: how much it has grown, and how long its loop has stood still though there
    was a processor for it."""

    def __init__(self) -> None:
        self.grown = 0
        self.longest = 0.0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._look())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _look(self) -> None:
        before, last = own_memory(), time.monotonic() - kept_waiting()
        while True:
            await asyncio.sleep(0.005)
            now = time.monotonic() - kept_waiting()
            self.longest, last = max(self.longest, now - last), now
            self.grown = max(self.grown, own_memory() - before)


async def goes_on(repl: Repl) -> bool:
    """Whether it runs code. A few times over, since the time of a cell may be short and the machine busy."""
    for _ in range(5):
        cell = await repl.run("print(6 * 7)")
        if cell.ending != "timeout":
            return (cell.ending, cell.stdout) == ("ok", "42\n")
    return False
