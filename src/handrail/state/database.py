"""The database of a shared state, for all stores of a process: transactions, tables, and what others announce."""

from __future__ import annotations

import asyncio
import random
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from handrail.core.backoff import longest_wait
from handrail.core.errors import StateError, StateUnavailable
from handrail.state.connections import RUN_AGAIN, ConnectionPool, explain, load_psycopg
from handrail.state.schema import StoreSchema, migrate
from handrail.state.topics import Topics
from handrail.state.url import StateUrl

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
Work = Callable[["psycopg.Connection"], T]

CONNECTIONS = 8
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL SERIALIZABLE"
_WRITE_COMMITTED = "BEGIN ISOLATION LEVEL READ COMMITTED"
_TRIES = 20
"""How often a transaction runs that others are in the way of. Each time one of them gets through."""


class StateDatabase:
    """A PostgreSQL database. What nobody closed is closed when nobody can use it any more."""

    def __init__(self, url: StateUrl, *, connections: int = CONNECTIONS) -> None:
        load_psycopg()
        self.url = url
        self.pool: ConnectionPool = ConnectionPool(url, connections)
        self.topics: Topics = Topics(url)
        """What others committed and announced."""
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="handrail-state")
        self._close = weakref.finalize(self, _close, self.pool, self.topics, self._threads)

    @classmethod
    def open(cls, url: StateUrl | str, *, connections: int = CONNECTIONS) -> StateDatabase:
        """Connect, which may block for some seconds.

        Args:
            connections: How many there are at most; they are made when they are needed.

        Raises:
            UsageError: The URL is none of PostgreSQL.
            MissingExtra: psycopg is not installed.
            StateError: The server cannot be reached, does not take us, or is too old.
        """
        database = cls(StateUrl.parse(url), connections=connections)
        with database.pool.connection():
            return database

    def migrate(self, schema: StoreSchema) -> int:
        """Bring the tables of a store up to date; how many steps that took. Replicas that do so at once take turns.

        Raises:
            StateError: A later handrail made the tables, with the version that reads them.
        """
        return self._transact(_WRITE_COMMITTED, lambda connection: migrate(connection, self.url, schema))

    async def read(self, work: Work[T]) -> T:
        """What the work finds; it sees one moment of the database.

        Raises:
            StateError: The database cannot be read.
        """
        return await self._in_thread(_READ, work)

    async def write(self, work: Work[T], *, serializable: bool = True) -> T:
        """Keep all that the work writes, or nothing. It is on the disk of the server before this returns.

        Args:
            serializable: Whether nobody else writes between what it reads and what it writes. Work that needs it not,
                as a single statement, is quicker without.

        Raises:
            StateUnavailable: The server is gone; `may_be_written` says whether it may have kept what was written.
            StateError: It is not written.
        """
        return await self._in_thread(_WRITE if serializable else _WRITE_COMMITTED, work)

    def read_now(self, work: Work[T]) -> T:
        """Reads like `read`, for code that may block."""
        return self._transact(_READ, work)

    def write_now(self, work: Work[T], *, serializable: bool = True) -> T:
        """Writes like `write`, for code that may block."""
        return self._transact(_WRITE if serializable else _WRITE_COMMITTED, work)

    def execute_now(self, statement: str, values: Any = (), *, patience: float = 0.0) -> list[tuple[Any, ...]]:
        """The rows of one statement that is a transaction by itself, which may run twice: the first answer may be lost.
        It keeps no lock while its process is stopped. A server that is gone is waited for, for `patience` seconds.

        Raises:
            StateError: It failed.
        """
        psycopg = load_psycopg()
        end = time.monotonic() + patience
        tries = 0
        while True:
            try:
                with self.pool.connection() as connection:
                    try:
                        found = connection.execute(statement, values or None)
                        return found.fetchall() if found.description is not None else []
                    except psycopg.Error as error:
                        raise explain(self.url, error, connection, committing=True) from error
            except StateUnavailable:
                tries += 1
                self.pool.forget_idle()
                if tries > 1 and time.monotonic() >= end:
                    raise
                time.sleep(longest_wait(tries, 0.02, 0.5) if tries > 1 else 0)

    def close(self) -> None:
        """What is under way is finished first."""
        self._close()

    async def _in_thread(self, begin: str, work: Work[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._transact, begin, work)

    def _transact(self, begin: str, work: Work[T]) -> T:
        psycopg = load_psycopg()
        lost = tries = 0
        while True:
            with self.pool.connection() as connection:
                transaction = _Transaction(connection)
                try:
                    return transaction.run(begin, work)
                except psycopg.Error as error:
                    explained = explain(self.url, error, connection, committing=transaction.is_committing)
                    cause = error
            if isinstance(explained, StateUnavailable) and connection.closed and not transaction.is_committing:
                # Nothing was written. An idle connection does not know that its server was restarted.
                self.pool.forget_idle()
                lost += 1
                if lost == 1:
                    continue
            elif cause.sqlstate in RUN_AGAIN and tries < _TRIES:
                tries += 1
                time.sleep(random.uniform(0, longest_wait(tries, 0.002, 0.1)))
                continue
            raise explained from cause


class _Transaction:
    """One try of a transaction."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self.is_committing = False
        """Whether the server was told to keep it, and has not said that it did."""

    def run(self, begin: str, work: Work[T]) -> T:
        connection = self._connection
        try:
            connection.execute(begin)
            done = work(connection)
            self.is_committing = begin is not _READ
            ended = connection.execute("COMMIT").statusmessage
            self.is_committing = False
        except BaseException:
            if not connection.closed and not connection.broken:
                self.is_committing = False  # the server refused it
                connection.rollback()
            raise
        if ended != "COMMIT":
            raise StateError("the work went on after a statement had failed, and so nothing was written")
        return done


def _close(pool: ConnectionPool, topics: Topics, threads: ThreadPoolExecutor) -> None:
    try:
        topics.close()
        threads.shutdown()
    except RuntimeError:  # the last who used it was one of its threads, which cannot wait for itself
        threads.shutdown(wait=False)
    finally:
        pool.close()
