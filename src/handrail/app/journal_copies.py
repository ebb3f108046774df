"""Copies a journal between a file and a shared database, with everything that proves it: entries, checkpoints, and its
key.

Its tables are the same in both, so its rows go over as they stand: every leaf, hash and signature stays as it was.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.core.keyfile import create_key
from handrail.journal.database import connect, connect_existing, has_table, key_file, own_signer, read_meta
from handrail.journal.postgres_tables import SCHEMA as SCHEMA, PostgresTables, stored_signer, written_text

if TYPE_CHECKING:
    import psycopg

    from handrail.state.url import StateUrl

JOURNAL = "journal.db"
TABLES = {
    "entry": "seq, run, n, call, type, at, leaf, hash, salt, data",
    "span": "run, first, last, n",
    "checkpoint": "size, note, frontier",
    "exact": "seq, data",
    "effect": "identity, seq",
}
_OF_ENGINE = ("format", "probe")
"""What a journal says of itself that is of its engine and does not go over."""
CopyIn = Callable[[str, str, Iterable[Sequence[Any]]], None]


def journal_to_tables(file: Path, connection: psycopg.Connection, copy_in: CopyIn) -> None:
    """Copy the journal in a file, with the key beside it, into the tables of a database that has none.

    Raises:
        JournalError: It cannot be read, or its key is not there.
    """
    with closing(connect_existing(file, "ro")) as journal:
        journal.execute("BEGIN")  # all of it as it is at one moment
        meta = read_meta(journal)
        signer = own_signer(file, meta["origin"])
        copy_in("meta", "key, value", [(key, value) for key, value in meta.items() if key not in _OF_ENGINE])
        copy_in("signing_key", "name, secret", [(meta["origin"], signer.private_text)])
        for table, columns in TABLES.items():
            if has_table(journal, table):
                rows = journal.execute(f"SELECT {columns} FROM {table}")
                copy_in(table, columns, (tuple(map(_written, row)) for row in rows))


def tables_to_journal(connection: psycopg.Connection, url: StateUrl, file: Path) -> int:
    """Copy the journal of a database into a new file, with its key beside it; how many entries it has.

    Raises:
        JournalError: The key is not in the database, or the file cannot be written.
    """
    tables = PostgresTables(url, connection, lambda: None)
    meta = {str(key): str(value) for key, value in tables.execute("SELECT key, value FROM meta")}
    if not meta:  # no replica was ever started
        return 0
    signer = stored_signer(connection, meta["origin"])
    opened, _ = connect(file, signer, meta["origin"], 10)
    create_key(key_file(file), signer.private_text)
    with closing(opened) as journal:
        journal.execute("BEGIN IMMEDIATE")
        for key, value in meta.items():
            if key not in _OF_ENGINE:
                journal.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
        for table, columns in TABLES.items():
            marks = ", ".join("?" * (columns.count(",") + 1))
            order = " ORDER BY seq" if table == "entry" else ""
            rows = tables.execute(f"SELECT {columns} FROM {table}{order}")
            journal.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)
        (entries,) = journal.execute("SELECT count(*) FROM entry").fetchone()
        journal.execute("COMMIT")
    with closing(sqlite3.connect(file)) as alone:
        alone.execute("PRAGMA journal_mode = DELETE")  # so that it needs no other file beside it
    return int(entries)


def _written(value: Any) -> Any:
    return written_text(value) if isinstance(value, str) else value
