"""The port of a store's tables: the same SQL in a SQLite file of one machine, or in the shared state of several.

A store writes its statements once, with `?` for each value and in words that both engines read. What differs between
them are its tables, which `StoreTables` holds for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from handrail.state.schema import Migration, StoreSchema

if TYPE_CHECKING:
    from handrail.state.database import StateDatabase

T = TypeVar("T")


class SqlCursor(Protocol):
    """What a statement found."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class SqlConnection(Protocol):
    """A transaction that is under way."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> SqlCursor: ...


Work = Callable[[SqlConnection], T]
"""What is done in one transaction. It may be done again, so it must do nothing but read and write there."""


class SqlDatabase(Protocol):
    """The tables of one store. A transaction is kept whole or not at all; what fails is a `BusError`."""

    @property
    def is_remote(self) -> bool:
        """Whether who reads waits for a server: then nobody reads in an event loop."""
        ...

    async def read(self, work: Work[T]) -> T: ...

    async def write(self, work: Work[T], *, alone: bool = True) -> T:
        """Do what the work does, or nothing of it.

        Args:
            alone: Whether nobody else writes to this store meanwhile. Work that needs it not, because each statement
                is right by itself, does not wait for others where there is a server.
        """
        ...

    def read_now(self, work: Work[T]) -> T:
        """Reads like `read`, for code that may block."""
        ...

    def write_now(self, work: Work[T], *, alone: bool = True) -> T:
        """Writes like `write`, for code that may block."""
        ...

    def close(self) -> None: ...


class StoreTables(Struct, frozen=True):
    """The tables of a store in either engine, as the steps that made them."""

    store: str
    sqlite: tuple[Migration, ...]
    postgres: tuple[Migration, ...]
    unnumbered: dict[str, int] = {}
    """Steps that files took before they had numbers, by the column that each added."""

    @property
    def shared(self) -> StoreSchema:
        """Those in a shared state."""
        return StoreSchema(self.store, self.postgres)


Place = Path | None
"""A file; None is memory."""


def open_tables(place: StateDatabase | Place, tables: StoreTables, *, patience: float = 10) -> SqlDatabase:
    """The tables of a store, made or brought up to date.

    Raises:
        UsageError: The file cannot be used, holds something else, or a later handrail made it.
        StateError: The shared state cannot be used, or a later handrail made the tables.
    """
    if place is None or isinstance(place, Path):
        from handrail.state.sqlite_database import SqliteDatabase

        return SqliteDatabase(place, tables, patience=patience)
    from handrail.state.postgres_database import PostgresDatabase

    return PostgresDatabase(place, tables)
