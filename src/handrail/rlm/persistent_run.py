"""What an `RLM` keeps between two completions."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from handrail.core.errors import UsageError
from handrail.core.ports import Journal
from handrail.rlm.run import RlmRun


class PersistentRun:
    """The run of a persistent `RLM`, in the loop that it was opened in."""

    def __init__(self, run: RlmRun, stack: AsyncExitStack) -> None:
        self.run = run
        self._stack = stack
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()

    def turn(self) -> asyncio.Lock:
        """Held while one question is answered.

        Raises:
            UsageError: This is not the loop that the REPL works in.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise UsageError(
                "this REPL works in another event loop; use the blocking methods or the async ones, not both"
            )
        return self._turn

    async def aclose(self) -> None:
        await self._stack.aclose()


async def journal_of(given: Journal | Path | None, stack: AsyncExitStack) -> Journal | None:
    if given is None or not isinstance(given, Path):
        return given
    from handrail.journal.journal import SqliteJournal  # SQLite and cryptography load when they are used

    return await stack.enter_async_context(await SqliteJournal.open(given))
