"""The same with a journal on disk, which the sessions of the program share."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.turns.contestants import handrail_session
from bench.turns.work import Once, Work
from handrail.journal import SqliteJournal


@asynccontextmanager
async def opened(work: Work, base_url: str) -> AsyncIterator[Once]:
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as folder:
        path = Path(folder) / "journal.db"
        async with await SqliteJournal.open(path) as journal, handrail_session.opened(work, base_url, journal) as once:
            yield once
