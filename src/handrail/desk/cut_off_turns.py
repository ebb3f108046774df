"""Resumes turns that were cut off when another replica of this node ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from handrail.app.app import cancel_and_wait
from handrail.core.errors import JournalError, StateError, UsageError
from handrail.desk.desk import Desk

logger = logging.getLogger(__name__)


@asynccontextmanager
async def taking_up_cut_off_turns(desk: Desk) -> AsyncIterator[None]:
    """Go on with them while the block lasts, if the journal is one that replicas share."""
    if desk.app.state.database is None:
        yield
        return
    from handrail.journal.postgres_journal import PostgresJournal  # psycopg is loaded where a state is used

    journal = desk.app.journal
    assert isinstance(journal, PostgresJournal)
    loop, watch = asyncio.get_running_loop(), _CutOffTurns(desk)

    def hear(runs: list[str]) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(watch.hear, runs)

    leave = journal.watch_cut_off(hear)
    task = asyncio.create_task(watch.follow())
    try:
        yield
    finally:
        leave()
        await cancel_and_wait(task)


class _CutOffTurns:
    """What was heard last of runs whose replica is gone. They are told again and again until somebody takes them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._heard: set[str] = set()
        self._told = asyncio.Event()
        self._others: set[str] = set()
        """Runs of no conversation, as those of commands: whoever asks for them again goes on with them."""

    def hear(self, runs: list[str]) -> None:
        self._heard = set(runs)
        self._told.set()

    async def follow(self) -> None:
        while True:
            await self._told.wait()
            self._told.clear()
            self._others &= self._heard
            for run in self._heard - self._others:
                try:
                    await self._desk.take_up(run)
                except UsageError:
                    self._others.add(run)
                except (JournalError, StateError) as error:  # it is told again
                    logger.warning("the run %r was interrupted, and cannot be resumed yet: %s", run, error)
                except Exception:
                    self._others.add(run)
                    logger.exception("the run %r was cut off, and cannot be taken up", run)
