"""Entries into the journal in PostgreSQL, by one thread of a process at a time, beside those of other replicas.

A commit is one call of a function of the database, which is a transaction by itself: a process that is stopped while it
waits for the answer keeps no lock. The function takes the lock of the log, looks whether somebody else appended
meanwhile and whether the leases of the runs are still held, and inserts. Whoever was too late takes the entries of the
others in and tries again; after a few times it keeps the lock while it does so.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from handrail.core.backoff import longest_wait
from handrail.core.errors import JournalError, StateError
from handrail.core.events import ConfirmationAnswered
from handrail.journal.confirmations import FirstAnswers
from handrail.journal.entry import NO_PREVIOUS, EntryDraft
from handrail.journal.keys import Signer
from handrail.journal.merkle import Frontier
from handrail.journal.postgres_leases import PostgresLeases
from handrail.journal.postgres_tables import (
    APPEND_LOCK,
    NOTES_LOCK,
    SCHEMA,
    PostgresTables,
    StateLost,
    journal_error,
    set_up,
    written_text,
)
from handrail.journal.writer import JournalRows, JournalWriter
from handrail.state.connections import connect, cut
from handrail.state.schema import migrate
from handrail.state.url import StateUrl

logger = logging.getLogger(__name__)

_OPTIMISTIC = 3
"""The number of commits that are tried without the lock while the entries of others are taken in."""
_APPEND = (
    "SELECT append_entries(%b, %b, %b, %b::text[], %b::bigint[], %b::bigint[], %b::text[], %b::bigint[], %b::text[],"
    " %b::text[], %b::bigint[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bigint[], %b::bytea[],"
    " %b::bytea[], %b::bigint[])"
)


_PROBE = """
INSERT INTO meta VALUES ('probe', gen_random_uuid()::text) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
_T = TypeVar("_T")


class _RunLost(Exception):
    """A run was taken up elsewhere; nothing of the commit was written, which goes on without that run."""


class PostgresWriter(JournalWriter):
    """Appends entries and signs checkpoints, as one of several that do."""

    def __init__(
        self, url: StateUrl, tables: PostgresTables, signer: Signer, leases: PostgresLeases, patience: float
    ) -> None:
        # A place is only shown, and given to readers; they take the address of a state too.
        super().__init__(cast(Path, url), cast(sqlite3.Connection, tables), signer)
        self._url = url
        self._tables = tables
        self._leases = leases
        self._patience = patience
        self._closed = threading.Event()
        self._begun: tuple[int, bytes] | None = None
        """Where the first entry of a commit under way may stand already, and its hash."""

    @classmethod
    def open_state(
        cls, url: StateUrl, *, signer: Signer | None, origin: str | None, leases: PostgresLeases, patience: float
    ) -> PostgresWriter:
        """Open or make the journal of a state, and check its end against its last checkpoint.

        Raises:
            JournalError: It cannot be opened, another key signs it, or a later version wrote it.
            BrokenProof: Its end is not what was signed.
        """
        try:
            connection = connect(url)
        except StateError as error:
            raise journal_error(error) from error
        tables = PostgresTables(url, connection)
        try:
            with tables.explained(), connection.transaction():
                migrate(connection, url, SCHEMA)
                signer = set_up(connection, signer, origin)
            writer = cls(url, tables, signer, leases, patience)
            writer._take_up()
        except BaseException as error:
            tables.close()
            if isinstance(error, StateError):
                raise journal_error(error) from error
            raise
        return writer

    def commit(self, drafts: Sequence[EntryDraft], durable: bool) -> None:
        """Write these entries, all or none, but for those that came too late, as in a file. With `durable` the server
        has them on its disk.

        Where the connection is lost it is made again, for as long as others are waited for, and what the server may
        have kept is looked for before anything is written again.

        Raises:
            JournalError: They are not written.
        """
        self.check_failure()
        self._begun = None
        end = time.monotonic() + self._patience
        tries = 0
        while True:
            try:
                if tries:
                    self._reconnect()
                    with self._transaction():  # whoever still writes for the lost connection has the lock until it ends
                        self._fold()
                    if self._begun is not None and self._has(*self._begun):
                        return
                rows = self._append(self._fenced(drafts), durable)
            except _RunLost:
                continue
            except StateLost:
                tries += 1
                if time.monotonic() >= end or self._closed.is_set():
                    raise
                time.sleep(longest_wait(tries, 0.02, 0.5))
                continue
            self._advance(rows.entries)
            return

    def _fenced(self, drafts: Sequence[EntryDraft]) -> Sequence[EntryDraft]:
        """The entries that may still be written here. An answer of a person may come from anywhere."""
        self.refused = frozenset(self._leases.lost({each.run for each in drafts if not each.request}))
        return [each for each in drafts if each.request or each.run not in self.refused] if self.refused else drafts

    def _append(self, drafts: Sequence[EntryDraft], durable: bool) -> JournalRows:
        rows = self._rows(drafts)
        for _ in range(_OPTIMISTIC):
            if not rows.entries or self._call(drafts, rows, durable):
                return rows
            self._fold()
            rows = self._rows(drafts)
        with self._transaction():
            self._fold()
            rows = self._rows(drafts)
            if rows.entries and not self._call(drafts, rows, durable):
                raise JournalError(f"the journal in {self._url} changed under its lock; look who writes to its tables")
        return rows

    def _call(self, drafts: Sequence[EntryDraft], rows: JournalRows, durable: bool) -> bool:
        """Whether the rows were written; not if somebody else appended meanwhile."""
        fences = self._leases.fences({each.run for each in drafts if not each.request})
        columns = [list(column) for column in zip(*rows.entries, strict=True)]
        for index in (1, 3):
            columns[index] = [each if each is None else written_text(each) for each in columns[index]]
        exact = [list(column) for column in zip(*rows.exact, strict=True)] or [[], []]
        effects = [list(column) for column in zip(*rows.effects, strict=True)] or [[], []]
        leased = [written_text(run) for run in fences]
        values = (self._leases.owner, durable, self.size, leased, list(fences.values()), *columns, *exact, *effects)
        self._begun = rows.entries[0][0], rows.entries[0][7]
        with self._tables.explained(committing=True):
            found = self._tables.connection.execute(_APPEND, values).fetchone()
        said = "" if found is None else str(found[0])
        if said.startswith("lost "):
            self._leases.note_lost(next(run for run in fences if written_text(run) == said.removeprefix("lost ")))
            raise _RunLost
        return said != "behind"

    def _note(self) -> None:
        """After the checkpoint, and not in its transaction: others append meanwhile."""

    def _note_behind(self) -> None:
        connection = self._tables.connection
        try:
            with self._tables.explained(), connection.transaction():
                connection.execute("SET LOCAL synchronous_commit = off")
                free = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (NOTES_LOCK,)).fetchone()
                if free is not None and free[0]:
                    super()._note()
                else:
                    self.behind = False  # another replica is at it
        except StateLost as error:
            logger.info("entries are noted later: %s", error)

    def _is_passing(self, error: JournalError) -> bool:
        return isinstance(error, StateLost)

    def _watch_files(self) -> None:
        return None

    def _has(self, seq: int, hashed: bytes) -> bool:
        row = self._tables.execute("SELECT hash FROM entry WHERE seq = ?", (seq,)).fetchone()
        return row is not None and row[0] == hashed

    def _reconnect(self) -> None:
        self._tables.connection.close()
        try:
            self._tables.connection = connect(self._url)
        except StateError as error:
            raise journal_error(error) from error
        if self.size and not self._has(self.size - 1, bytes.fromhex(self._head)):
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Read the end of the log again: a server that crashed has lost the last entries that were not durable."""
        self._frontier, self._unfolded, self._head = Frontier(), [], NO_PREVIOUS
        self._positions, self._leaving, self._questions = {}, set(), FirstAnswers()
        self.size = self.unsigned = 0
        self._take_up()

    def checkpoint(self) -> str | None:
        self._again(lambda: self._tables.execute("SELECT 1"))
        note = super().checkpoint()
        self._note_behind()
        return note

    def _take_in_others(self) -> None:
        self._again(super()._take_in_others)

    def version_of(self, run: str) -> tuple[int, int]:
        return self._again(partial(super().version_of, run))

    def is_new(self, run: str) -> bool:
        return self._again(partial(super().is_new, run))

    def answer(self, run: str, request: str) -> ConfirmationAnswered | None:
        return self._again(partial(super().answer, run, request))

    def last_effect(self, identity: bytes) -> tuple[int, bytes] | None:
        return self._again(partial(super().last_effect, identity))

    def _again(self, look: Callable[[], _T]) -> _T:
        """What is found, over a new connection if the one that was idle has been lost."""
        self._mend()
        try:
            return look()
        except StateLost:
            self._mend()
            return look()

    def _mend(self) -> None:
        """Connect again, if the connection was found lost."""
        if self._tables.connection.closed or self._tables.connection.broken:
            self._reconnect()

    def check(self) -> None:
        self.check_failure()

    def probe(self) -> None:
        """Write something that says nothing, to know that entries could be written."""
        self._again(lambda: self._tables.execute(_PROBE))

    def move_pages(self) -> None:
        """PostgreSQL does that by itself."""
        self.pages = 0

    def stop_waiting(self) -> None:
        """Wait no more for a server that is lost, or does not answer: the process ends."""
        self._closed.set()
        cut(self._tables.connection)

    def close(self) -> None:
        self._tables.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """With the lock of the log."""
        connection = self._tables.connection
        with self._tables.explained(committing=True), connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (APPEND_LOCK,))
            yield
