"""The tables of a store in a SQLite file: numbered steps that only go forward, as in a shared state.

The table `schema_version` says at which step the file is, and which handrail reads it; `user_version` repeats the
number for those that came before that table. A file of a later handrail is refused, with that version.
"""

from __future__ import annotations

import sqlite3

from handrail.core.errors import UsageError
from handrail.core.installation import PACKAGE
from handrail.state.sql import StoreTables

_VERSIONS = """
CREATE TABLE IF NOT EXISTS schema_version (
    store TEXT PRIMARY KEY, version INTEGER NOT NULL, reads_with TEXT NOT NULL
)
"""
_SOMETHING_ELSE = "is a database of something else; choose another path"


def migrate_file(connection: sqlite3.Connection, tables: StoreTables) -> int:
    """Take the steps that are missing, in a transaction that is under way; how many they were.

    Raises:
        UsageError: A later handrail made the file, or it holds something else; the words go on after its name.
    """
    found = check_file(connection, tables)
    missing = tables.sqlite[found:]
    if not missing:
        return 0
    connection.execute(_VERSIONS)
    for migration in missing:
        for statement in filter(str.strip, migration.statements.split(";")):
            connection.execute(statement)
    connection.execute(
        "INSERT INTO schema_version VALUES (?, ?, ?) ON CONFLICT (store) DO UPDATE"
        " SET version = excluded.version, reads_with = excluded.reads_with",
        (tables.store, len(tables.sqlite), missing[-1].reads_with),
    )
    connection.execute(f"PRAGMA user_version = {len(tables.sqlite)}")
    return len(missing)


def check_file(connection: sqlite3.Connection, tables: StoreTables) -> int:
    """The step at which the file is; 0 for one without tables.

    Raises:
        UsageError: As `migrate_file`.
    """
    found, reads_with = _found(connection, tables)
    if found > len(tables.sqlite):
        raise UsageError(
            f"has {tables.store!r} in version {found}, and this {PACKAGE} reads {len(tables.sqlite)};"
            f" use {PACKAGE} {reads_with} or later"
        )
    return found


def _found(connection: sqlite3.Connection, tables: StoreTables) -> tuple[int, str]:
    store = tables.store
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "schema_version" in there:
        rows = connection.execute("SELECT store, version, reads_with FROM schema_version").fetchall()
        other = next((row[0] for row in rows if row[0] != store), store)
        if not rows or other != store:
            raise UsageError(f"holds {other!r}, not {store!r}; choose another path")
        return int(rows[0][1]), str(rows[0][2])
    # Files of before that table: services named themselves in `kind`, the store of tokens numbered its format.
    if "kind" in there:
        named = connection.execute("SELECT name FROM kind").fetchone()
        if named is None or named[0] != store:
            raise UsageError(f"holds {None if named is None else named[0]!r}, not {store!r}; choose another path")
        return max((step for at, step in tables.unnumbered.items() if _has_column(connection, at)), default=1), ""
    if not there:
        return 0, ""
    numbered = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if store != "tokens" or not numbered or "issued" not in there:
        raise UsageError(_SOMETHING_ELSE)
    return numbered, ""


def _has_column(connection: sqlite3.Connection, at: str) -> bool:
    table, _, column = at.partition(".")
    return (
        connection.execute("SELECT 1 FROM pragma_table_info(?) WHERE name = ?", (table, column)).fetchone() is not None
    )
