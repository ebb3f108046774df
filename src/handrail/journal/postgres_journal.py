"""The journal of several replicas in PostgreSQL: one log for all of them, with one key and one tree.

Its entries share commits as those of a file do, in the journal's thread: a commit is a conversation with a server.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import ClassVar, cast

from handrail.core.errors import LeaseHeld, LeaseLost, StateError
from handrail.core.events import CallIntended, ConfirmationAnswered, ConfirmationRequested, Recorded
from handrail.core.ports import Clock, SystemClock
from handrail.journal.journal import BatchedJournal, JournalTiming
from handrail.journal.keys import Signer
from handrail.journal.postgres_leases import PostgresLeases, StateLease
from handrail.journal.postgres_tables import PostgresTables, StateLost, checked_tables, journal_error
from handrail.journal.postgres_writer import PostgresWriter
from handrail.journal.reader import JournalReader
from handrail.state.database import StateDatabase
from handrail.state.url import StateUrl

HEARTBEAT = 2.0
"""Seconds. A replica that says nothing for two of them loses its runs; see `docs/design/066`."""
_ENDS_WITHIN = 10.0
"""Seconds for which the end is written, where the server does not answer. What was not answered for may be lost."""
_LOOK_AGAIN = 5.0
"""Seconds after which an answer is looked for although nobody was told of one."""


class PostgresJournal(BatchedJournal):
    """One log, many runs, any number of replicas. `open` makes one."""

    _is_near: ClassVar[bool] = False
    _leases: PostgresLeases
    _database: StateDatabase
    _owns_database: bool

    @classmethod
    async def open(
        cls,
        url: StateUrl | str | StateDatabase,
        *,
        signer: Signer | None = None,
        origin: str | None = None,
        clock: Clock = SystemClock(),
        checkpoint_every: int = 1024,
        timing: JournalTiming = JournalTiming(),
        publish: Callable[[str], None] | None = None,
        random: Callable[[int], bytes] = os.urandom,
        heartbeat: float = HEARTBEAT,
    ) -> PostgresJournal:
        """Open or make the journal of a state. If no signer is given, the key in the state signs: all replicas have it.

        Args:
            url: The address, or the database that other stores of this process use too.
            heartbeat: Seconds between two signs of life; the same for all replicas.

        Raises:
            UsageError: It is no address of PostgreSQL.
            MissingExtra: psycopg is not installed.
            JournalError: It cannot be opened, with what to do about it.
        """
        made = partial(cls._opened, url, signer, origin, timing, heartbeat)
        database, leases, writer = await asyncio.to_thread(made)
        # Every commit goes through the thread: the event loop never waits for a server.
        timing = JournalTiming(unsigned=timing.unsigned, stall=0.0, patience=timing.patience, answers=timing.answers)
        journal = cls(
            writer, clock=clock, checkpoint_every=checkpoint_every, timing=timing, publish=publish, random=random
        )
        journal._database, journal._leases = database, leases
        journal._owns_database = not isinstance(url, StateDatabase)
        leases.write_before_release(journal._write_owed_of)
        return journal

    @staticmethod
    def _opened(
        url: StateUrl | str | StateDatabase,
        signer: Signer | None,
        origin: str | None,
        timing: JournalTiming,
        heartbeat: float,
    ) -> tuple[StateDatabase, PostgresLeases, PostgresWriter]:
        try:
            database = url if isinstance(url, StateDatabase) else StateDatabase.open(url)
        except StateError as error:
            raise journal_error(error) from error
        leases = PostgresLeases(database, heartbeat)
        try:
            writer = PostgresWriter.open_state(
                database.url, signer=signer, origin=origin, leases=leases, patience=timing.patience
            )
        except BaseException:
            leases.close()
            if database is not url:
                database.close()
            raise
        return database, leases, writer

    @property
    def database(self) -> StateDatabase:
        """The database of the journal."""
        return self._database

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        await super().append(event, durable=durable)
        if durable and isinstance(event, CallIntended):
            await self._check_lease(event.run)

    async def append_effect(
        self, event: CallIntended | ConfirmationRequested, identity: bytes, after: int | None, *, durable: bool = False
    ) -> bool:
        is_noted = await super().append_effect(event, identity, after, durable=durable)
        if is_noted and durable:
            await self._check_lease(event.run)
        return is_noted

    async def _check_lease(self, run: str) -> None:
        """Let an effect begin only in a run that is still this replica's.

        Its intent was written under the lease. But the answer of the server may be late, or this process may have been
        stopped before it read it, and meanwhile another replica may have found that nothing was done, and do it.

        Raises:
            LeaseLost: Another replica has taken the run up.
            JournalError: The state cannot be reached.
        """
        if self._leases.is_fresh(run):
            return
        if not await asyncio.get_running_loop().run_in_executor(self._leases.calls, self._leases.confirm, run):
            raise LeaseLost(run)

    async def lease(self, run: str) -> StateLease:
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._leases.calls, self._leases.take, run)

    async def find_holder(self, run: str) -> LeaseHeld | None:
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._leases.calls, self._leases.find_holder, run)

    def watch_cut_off(self, found: Callable[[list[str]], None]) -> Callable[[], None]:
        """Have runs told whose replica is gone, to be taken up here: in a thread, each time they are seen. Returns what
        ends it."""
        return self._leases.watch_cut_off(found)

    async def wait_for_answer(self, run: str, request: str) -> ConfirmationAnswered:
        self._check_open()
        loop, told = asyncio.get_running_loop(), asyncio.Event()

        def hear(text: str | None) -> None:
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(told.set)

        leave = self._database.topics.subscribe("answers", hear)
        try:
            while True:
                told.clear()
                if (found := await self.find_answer(run, request)) is not None:
                    return found
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(told.wait(), _LOOK_AGAIN)
        finally:
            leave()

    def _read_history(self, run: str) -> list[Recorded]:
        if self._closing:
            return super()._read_history(run)
        with self.reader() as reader:
            return list(reader.events(run))

    def reader(self) -> JournalReader:
        """A look into the journal over a connection of this process. Close it.

        Raises:
            JournalError: The state cannot be reached.
        """
        try:
            return self._reader()
        except StateLost:  # an idle connection does not know that its server was restarted
            self._database.pool.forget_idle()
            return self._reader()

    def _reader(self) -> JournalReader:
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(self._database.pool.connection())
            except StateError as error:
                raise journal_error(error) from error
            tables = checked_tables(self._database.url, connection, stack.close)
            stack = stack.pop_all()
            tables = PostgresTables(self._database.url, connection, stack.close)
        return JournalReader.over(tables, self._database.url)

    def close(self) -> None:
        patience = threading.Timer(_ENDS_WITHIN, self._stop_waiting)
        patience.daemon = True
        patience.start()
        try:
            super().close()
        finally:
            self._leases.close()
            if self._owns_database:
                self._database.close()
            patience.cancel()

    def _stop_waiting(self) -> None:
        cast(PostgresWriter, self._writer).stop_waiting()
        self._database.pool.cut()
