"""Waiting for an answer that another process writes into the journal."""

from __future__ import annotations

import asyncio
from pathlib import Path

from handrail.core.events import ConfirmationAnswered
from handrail.journal.reader import JournalReader


async def first_answer(path: Path, run: str, request: str, size: int, interval: float) -> ConfirmationAnswered:
    """The first answer to a question among the entries from number `size` on, once there is one.

    It asks SQLite now and then whether anybody has written, which reads one page of shared memory, and reads only
    entries that it has not seen.

    Raises:
        JournalError: The journal cannot be read.
    """
    with JournalReader(path) as reader:
        seen = None
        while True:
            version = reader.version()
            if version != seen:
                for entry in reader.answers(size):
                    event = entry.event
                    if isinstance(event, ConfirmationAnswered) and (event.run, event.request) == (run, request):
                        return event
                    size = entry.seq + 1
                seen = version
            await asyncio.sleep(interval)
