"""Work that outlives its executor, and the journal too."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

from handrail import Executor, Policy, ToolCall, tool
from handrail.journal.journal import SqliteJournal


class Told(logging.Handler):
    """What the log is told, and that it was told something."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.messages: list[str] = []
        self.event = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.event.set()


async def test_work_that_ends_after_its_journal_was_closed_disturbs_nobody(tmp_path: Path) -> None:
    release, told, disturbed = threading.Event(), Told(), list[dict[str, Any]]()

    def disturb(loop: asyncio.AbstractEventLoop, found: dict[str, Any]) -> None:
        disturbed.append(found)
        told.event.set()

    asyncio.get_running_loop().set_exception_handler(disturb)

    @tool(side_effects=True, timeout=0.05)
    def slow() -> str:
        release.wait(20)
        return "sent"

    free = Policy(confirm_side_effects=False)
    async with (
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        Executor([slow], journal=journal, policy=free) as executor,
    ):
        result = await executor.invoke(ToolCall("1", "slow"))

    logger = logging.getLogger("handrail.execute.performer")
    logger.addHandler(told)
    logger.setLevel(logging.INFO)
    try:
        release.set()
        async with asyncio.timeout(20):
            await told.event.wait()
    finally:
        logger.removeHandler(told)
        logger.setLevel(logging.NOTSET)

    assert (result.outcome, result.still_running, disturbed) == ("timeout", True, [])
    assert told.messages == ["'slow' ended after its record was closed: ok"]
