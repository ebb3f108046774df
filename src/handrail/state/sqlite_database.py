"""The tables of a store in one SQLite file, safe with other threads and processes on the same file.

Work is a function of a connection. It runs inside one transaction: all of it is kept, or none. In an event loop
it runs in the thread of the file. Who reads at once has a connection of its own, and waits for no writer.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from handrail.core.durable_files import make_folder
from handrail.core.errors import BusError, UsageError
from handrail.state.sql import StoreTables
from handrail.state.sqlite_retry import primary_code, retry_while_busy
from handrail.state.sqlite_schema import check_file, migrate_file

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_FULL = {sqlite3.SQLITE_FULL: "its disk is full", sqlite3.SQLITE_READONLY: "its file cannot be written"}


class SqliteDatabase:
    """A file, or memory where `path` is None. What nobody closed is closed when nobody can use it any more.

    Raises:
        UsageError: The file cannot be opened, is something else, or a later handrail made it.
    """

    is_remote = False

    def __init__(self, path: Path | None, tables: StoreTables, *, patience: float = 10) -> None:
        self._path = path
        self._store = tables.store
        self._patience = patience
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"handrail-{tables.store}")
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._opened = ExitStack()
        try:
            if path is not None:
                make_folder(path.parent)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # SQLite's other files follow
            self._connection = self._connected()
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"{str(path)!r} cannot be opened ({error}); choose another path") from error
        try:
            retry_while_busy(partial(_prepare, self._connection, tables), patience)
        except sqlite3.Error as error:
            self._opened.close()
            raise UsageError(f"{str(path)!r} cannot be used ({error}); choose another path") from error
        except UsageError as error:
            self._opened.close()
            raise UsageError(f"{str(path)!r} cannot be used: it {error}") from None
        self._close = weakref.finalize(self, self._opened.close)

    async def read(self, work: Work[T]) -> T:
        return await self._in_thread("BEGIN", work)

    async def write(self, work: Work[T], *, alone: bool = True) -> T:
        """Writes in a transaction. No other process writes between what the work reads and what it writes."""
        return await self._in_thread("BEGIN IMMEDIATE", work)

    def read_now(self, work: Work[T]) -> T:
        """Reads at once, without waiting for a writer."""
        if self._path is None:
            return self._transact(self._writing, self._connection, "BEGIN", work)
        with self._reading:
            reader = self._reader = self._reader or self._connected()
        return self._transact(self._reading, reader, "BEGIN", work)

    def write_now(self, work: Work[T], *, alone: bool = True) -> T:
        return self._transact(self._writing, self._connection, "BEGIN IMMEDIATE", work)

    def close(self) -> None:
        """What is under way is finished first."""
        self._thread.shutdown()
        self._close()

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path or ":memory:", timeout=self._patience, isolation_level=None, check_same_thread=False
        )
        return self._opened.enter_context(closing(connection))

    async def _in_thread(self, begin: str, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._transact, self._writing, self._connection, begin, work)

    def _transact(self, lock: threading.Lock, connection: sqlite3.Connection, begin: str, work: Work[T]) -> T:
        # A method: while it runs, this object is in use, and the connection is not closed under it.
        try:
            with lock:
                return _in_transaction(connection, begin, work)
        except sqlite3.Error as error:
            raise self._explained(error) from error
        except UnicodeEncodeError as error:  # half of a surrogate pair
            raise BusError("bad_request", "a text is not Unicode, and cannot be kept") from error

    def _explained(self, error: sqlite3.Error) -> BusError:
        code = primary_code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return BusError("capacity_exceeded", "others are writing; ask again", retry_after_ms=1000)
        return BusError("internal_error", f"the {self._store} of this node: {_FULL.get(code, str(error))}")


def _in_transaction(connection: sqlite3.Connection, begin: str, work: Work[T]) -> T:
    connection.execute(begin)
    try:
        done = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return done


def _prepare(connection: sqlite3.Connection, tables: StoreTables) -> None:
    # What the file holds is looked at before anything is done to it.
    _in_transaction(connection, "BEGIN", lambda inside: check_file(inside, tables))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    _in_transaction(connection, "BEGIN IMMEDIATE", lambda inside: migrate_file(inside, tables))
