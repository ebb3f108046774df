"""Compaction: gives back the space of what was erased or ended, in the files of a node or the tables of its
database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from handrail.core.errors import UsageError
from handrail.state.connections import SCHEMA, connect, explain, load_psycopg
from handrail.state.url import StateUrl

_MAGIC = b"SQLite format 3\0"
_PATIENCE = 10.0
"""Seconds for which whoever uses a file or a table is waited for."""
_TABLES = """
SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r' ORDER BY c.relname
"""


class CompactedPart(Struct, frozen=True):
    """How many bytes a file or a table took before, and takes now."""

    before: int
    after: int


def compact_files(journal: Path, services: Path) -> dict[str, CompactedPart]:
    """Rewrite each file of a state in its place.

    Raises:
        UsageError: Somebody writes to one of them, or the disk is full; the files before it are done.
    """
    found = {}
    for path in (journal, *_databases(journal, {journal.parent, services})):
        before = _size(path)
        _compact(path)
        found[str(path)] = CompactedPart(before, _size(path))
    return found


def compact_database(url: StateUrl) -> dict[str, CompactedPart]:
    """Rewrite each table of a state, with its indexes. Whoever uses a table waits until it is done.

    Raises:
        StateError: The database cannot be used, somebody keeps a table, or there is no room; the tables before it are
            done.
    """
    # As long as it takes; but while it waits for a table, everybody else waits for it.
    with closing(connect(url, statement_timeout="0", lock_timeout=f"{max(1, round(_PATIENCE * 1000))}")) as connection:
        try:
            before = connection.execute(_TABLES, (SCHEMA,)).fetchall()
            for table, _ in before:
                connection.execute(f'VACUUM (FULL, ANALYZE) {SCHEMA}."{table}"')
            after: dict[str, int] = dict(connection.execute(_TABLES, (SCHEMA,)).fetchall())
        except load_psycopg().Error as error:
            raise explain(url, error, connection, committing=False) from error
    return {table: CompactedPart(size, after[table]) for table, size in before if table in after}


def _databases(journal: Path, folders: set[Path]) -> Iterator[Path]:
    """The other files of the state that are databases."""
    known = {journal.resolve()}
    for folder in sorted(folders):
        for path in sorted([*folder.glob("*.db"), *folder.glob("blobs/*.sqlite")]):
            if path.resolve() not in known and path.is_file() and not path.is_symlink() and _is_database(path):
                known.add(path.resolve())
                yield path


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _size(path: Path) -> int:
    """The size of a database file together with its write-ahead log."""
    log = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


def _compact(path: Path) -> None:
    try:
        with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        raise UsageError(
            f"{str(path)!r} could not be compacted ({error}); it is as it was: end what writes to it, make room on"
            " the disk, and try again"
        ) from error
