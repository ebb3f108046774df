"""The tables of a store in the shared state, for several replicas of a node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from handrail.core.errors import BusError, Outcome, StateError, StateUnavailable
from handrail.state.database import StateDatabase
from handrail.state.sql import SqlCursor, StoreTables, Work

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

logger = logging.getLogger(__name__)

_LOCK = 1_212_239_442
"""The first half of the advisory locks of those who write to a store alone; drawn once, the same for all replicas."""


class PostgresDatabase:
    """An `SqlDatabase` in a shared state, which its owner closes.

    Raises:
        StateError: The state cannot be used, or a later handrail made the tables.
    """

    is_remote = True

    def __init__(self, database: StateDatabase, tables: StoreTables) -> None:
        self._database = database
        self._store = tables.store
        database.migrate(tables.shared)

    async def read(self, work: Work[T]) -> T:
        with self._explained():
            return await self._database.read(lambda connection: work(PostgresConnection(connection)))

    async def write(self, work: Work[T], *, alone: bool = True) -> T:
        with self._explained():
            return await self._database.write(self._written(work, alone), serializable=False)

    def read_now(self, work: Work[T]) -> T:
        with self._explained():
            return self._database.read_now(lambda connection: work(PostgresConnection(connection)))

    def write_now(self, work: Work[T], *, alone: bool = True) -> T:
        with self._explained():
            return self._database.write_now(self._written(work, alone), serializable=False)

    def close(self) -> None:
        """Does nothing: other stores use the same database."""

    def _written(self, work: Work[T], alone: bool) -> Callable[[psycopg.Connection], T]:
        def written(connection: psycopg.Connection) -> T:
            if alone:  # who writes waits for the one before, as in a file; what it reads then is as that one left it
                connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, self._store))
            return work(PostgresConnection(connection))

        return written

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except StateUnavailable as error:
            # Callers are told to ask again, as a proxy does elsewhere, and not where the server is.
            logger.info("the %s of this node: %s", self._store, error)
            outcome: Outcome = "in_doubt" if error.may_be_written else "failed"
            why = f"the {self._store} of this node cannot be reached for now; ask again"
            raise BusError("partition", why, outcome=outcome, retry_after_ms=1000) from error
        except StateError as error:
            logger.warning("the %s of this node: %s", self._store, error)
            raise BusError(
                "internal_error", f"the {self._store} of this node cannot be kept; its log says why"
            ) from error
        except UnicodeEncodeError as error:  # half of a surrogate pair
            raise BusError("bad_request", "a text is not Unicode, and cannot be kept") from error


class PostgresConnection:
    """A transaction, for statements that both engines read."""

    __slots__ = ("_connection",)

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = ()) -> SqlCursor:
        if any(isinstance(each, str) and "\0" in each for each in values):
            raise BusError("bad_request", "a text has a NUL character, and cannot be kept")
        return self._connection.execute(_translated(statement), values)


@lru_cache(1_024)
def _translated(statement: str) -> bytes:
    return statement.replace("%", "%%").replace("?", "%s").encode()
