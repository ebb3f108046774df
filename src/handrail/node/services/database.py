"""One SQLite file of a service: opened once, used off the event loop, safe with other processes on the same file.

Work is a function of a connection. It runs in the thread of the file, one at a time,
inside one transaction: all of it is kept, or none.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from handrail.core.errors import BusError, UsageError
from handrail.journal.sqlite_retry import primary_code, retry_while_busy
from handrail.sessions.store.content import make_folder

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_FULL = {sqlite3.SQLITE_FULL: "its disk is full", sqlite3.SQLITE_READONLY: "its file cannot be written"}


class Database:
    """A file, or memory where `path` is None. What nobody closed is closed when nobody can use it any more.

    Raises:
        UsageError: The file cannot be opened, or is something else.
    """

    def __init__(self, path: Path | None, tables: str, *, kind: str, patience: float = 10) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"handrail-{kind}")
        try:
            if path is not None:
                make_folder(path.parent)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # SQLite's other files follow
            self._connection = sqlite3.connect(
                path or ":memory:", timeout=patience, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"{str(path)!r} cannot be opened ({error}); choose another path") from error
        try:
            retry_while_busy(partial(_prepare, self._connection, tables, kind), patience)
        except sqlite3.Error as error:
            self._connection.close()
            raise UsageError(f"{str(path)!r} cannot be used ({error}); choose another path") from error
        except UsageError as error:
            self._connection.close()
            raise UsageError(f"{str(path)!r} {error}") from None
        self._close = weakref.finalize(self, self._connection.close)

    async def read(self, work: Work[T]) -> T:
        return await self._in_thread("BEGIN", work)

    async def write(self, work: Work[T]) -> T:
        """No other process writes between what the work reads and what it writes."""
        return await self._in_thread("BEGIN IMMEDIATE", work)

    def close(self) -> None:
        """What is under way is finished first."""
        self._thread.shutdown()
        self._close()

    async def _in_thread(self, begin: str, work: Work[T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, begin, work)
        except sqlite3.Error as error:
            raise _explained(error) from error
        except UnicodeEncodeError as error:  # half of a surrogate pair
            raise BusError("bad_request", "a text is not Unicode, and cannot be kept") from error

    def _transact(self, begin: str, work: Work[T]) -> T:
        # A method: while it runs, this object is in use, and the connection is not closed under it.
        return _whole(self._connection, begin, work)


def _whole(connection: sqlite3.Connection, begin: str, work: Work[T]) -> T:
    connection.execute(begin)
    try:
        done = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return done


def _explained(error: sqlite3.Error) -> BusError:
    code = primary_code(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BusError("capacity_exceeded", "others are writing; ask again", retry_after_ms=1000)
    return BusError("internal_error", f"the service cannot use its data: {_FULL.get(code, str(error))}")


def _prepare(connection: sqlite3.Connection, tables: str, kind: str) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")

    def create(inside: sqlite3.Connection) -> None:
        there = {name for (name,) in inside.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if there and "kind" not in there:
            raise UsageError("is a database of something else; choose another path")
        inside.execute("CREATE TABLE IF NOT EXISTS kind (name TEXT NOT NULL)")
        if (found := inside.execute("SELECT name FROM kind").fetchone()) is None:
            inside.execute("INSERT INTO kind VALUES (?)", (kind,))
        elif found[0] != kind:
            raise UsageError(f"holds {found[0]!r}, not {kind!r}; choose another path")
        for statement in filter(str.strip, tables.split(";")):
            inside.execute(statement)

    _whole(connection, "BEGIN IMMEDIATE", create)
