"""Copies the whole state of a node between files and a shared database. The source stays as it is.

Rows go over as they stand, whatever they mean: the tables of a store have the same columns in both engines, and a
conversation has the same lines and contents. Each direction is one transaction of the database: what is read is of one
moment, and what is written is there whole or not at all.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from handrail.app.journal_copies import JOURNAL, SCHEMA as JOURNAL_SCHEMA, journal_to_tables, tables_to_journal
from handrail.app.node_state import KEY, TOKENS
from handrail.core.durable_files import make_folder, write_atomically
from handrail.core.errors import UsageError
from handrail.core.keyfile import create_key, read_key
from handrail.journal.database import back_up, key_file
from handrail.node.services import blobs, event_log
from handrail.node.tokens import token_store
from handrail.node.tokens.identity import Identity
from handrail.sessions.store import shared_conversations
from handrail.sessions.store.conversations import ConversationStore
from handrail.state import keys
from handrail.state.database import StateDatabase
from handrail.state.sql import StoreTables
from handrail.state.sqlite_database import SqliteDatabase

if TYPE_CHECKING:
    import psycopg

RAG = "rag.db"
_ROWS = 500
_LIMITS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
_AT_LEISURE = "SELECT " + ", ".join(f"set_config('{name}', '0', true)" for name in _LIMITS)
"""A copy takes as long as it takes; the limits of requests are not for it."""
_ANALYZE = "ANALYZE entry, span, checkpoint, token, event, conversation, blob"


class _File(Struct, frozen=True):
    """A SQLite file of a store, and its tables with their columns, those that others refer to first."""

    path: str
    store: StoreTables
    tables: dict[str, str]


FILES = (
    _File(
        TOKENS,
        token_store.TABLES,
        {
            "token": "id, parent, issuer, subject, expires_at, claims",
            "token_revocation": "id, at",
            "token_use": "id, calls, until",
        },
    ),
    _File(
        "events.db",
        event_log.TABLES,
        {
            "event_clock": "lamport",
            "event": "lamport, id, kind, author, client_id, digest, content, created, expires, recipient, state,"
            " changed",
        },
    ),
    _File(
        "blobs/index.sqlite",
        blobs.TABLES,
        {"blob": "cid, size", "blob_holder": "cid, owner, media_type, at, shared"},
    ),
)


class StateCounts(Struct, frozen=True):
    """How much of each part of a state was copied."""

    tokens: int = 0
    conversations: int = 0
    events: int = 0
    blobs: int = 0
    entries: int = 0
    """The entries of the journal."""


# ── files to files ───────────────────────────────────────────────────────────────────


def copy_files(journal: Path, target: Path, services: Path | None = None) -> StateCounts:
    """Copy the state of a node that keeps it in files, also while it runs, into an empty folder.

    Each store is copied as it is at one moment. Conversations and blobs come before the journal, so that it knows of
    whatever they speak of.

    Raises:
        HandrailError: Something cannot be read or written.
    """
    folder, services = journal.parent, services or journal.parent
    make_folder(target)
    for each in FILES:
        _copy_database((folder if each.path == TOKENS else services) / each.path, target / each.path)
    _copy_database(services / RAG, target / RAG)
    _copy_blob_files(services / "blobs", target / "blobs")
    _copy_conversations(folder, target)
    if (folder / "outputs").is_dir():
        shutil.copytree(folder / "outputs", target / "outputs", ignore=shutil.ignore_patterns("*.part"))
    if (folder / KEY).exists():
        create_key(target / KEY, read_key(folder / KEY))
    if journal.exists():
        back_up(journal, target / JOURNAL)
        if key_file(journal).exists():
            create_key(key_file(target / JOURNAL), read_key(key_file(journal)))
    return _counts_of_files(target)


def _copy_database(source: Path, target: Path) -> None:
    """Copies a database file, also one in use, with what stands in its write-ahead log."""
    if not source.exists():
        return
    make_folder(target.parent)
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as one,
        closing(sqlite3.connect(target)) as other,
    ):
        one.backup(other)
        other.execute("PRAGMA journal_mode = DELETE")
    target.chmod(0o600)


def _copy_blob_files(source: Path, target: Path) -> None:
    """The bytes of the blobs that the copied index names. One that was deleted since goes from the copy too."""
    index = target / "index.sqlite"
    if not index.exists():
        return
    SqliteDatabase(index, blobs.TABLES).close()
    with closing(sqlite3.connect(index, isolation_level=None)) as copy:
        for (cid,) in copy.execute("SELECT cid FROM blob").fetchall():
            path = blobs.file_of(target, cid)
            try:
                data = blobs.file_of(source, cid).read_bytes()
            except FileNotFoundError:
                copy.execute("DELETE FROM blob_holder WHERE cid = ?", (cid,))
                copy.execute("DELETE FROM blob WHERE cid = ?", (cid,))
                continue
            make_folder(path.parent)
            write_atomically(path, data)
        copy.execute("PRAGMA journal_mode = DELETE")


def _copy_conversations(source: Path, target: Path) -> None:
    with ConversationStore(source).unchanging():
        for name in ("conversations", "content"):
            if (source / name).is_dir():
                shutil.copytree(source / name, target / name, ignore=shutil.ignore_patterns("*.part", "*.deleted"))


# ── files to a database ──────────────────────────────────────────────────────────────


def files_to_database(folder: Path, database: StateDatabase) -> StateCounts:
    """Copy the state in a folder into a database that has none.

    Raises:
        UsageError: The database has a state already.
        StateError: The database cannot be used.
    """
    for each in FILES:
        database.migrate(each.store.shared)
    for schema in (keys.SCHEMA, shared_conversations.SCHEMA, JOURNAL_SCHEMA):
        database.migrate(schema)

    def work(connection: psycopg.Connection) -> StateCounts:
        connection.execute(_AT_LEISURE)
        check_empty(connection, database)
        for each in FILES:
            if (folder / each.path).exists():
                SqliteDatabase(folder / each.path, each.store).close()  # its tables are those of this handrail then
                _rows_to_tables(folder / each.path, connection, each.tables)
        _blobs_to_table(folder / "blobs", connection)
        _conversations_to_tables(folder, connection)
        if (folder / JOURNAL).exists():
            journal_to_tables(folder / JOURNAL, connection, partial(_copy_in, connection))
        if (folder / KEY).exists():
            identity = Identity.load(folder / KEY)
            _copy_in(connection, "node_key", "name, value", [(KEY, identity.text), ("node_id", identity.node_id)])
        # Otherwise the first minute's lookups read whole tables: the server does not know yet what is in them.
        connection.execute(_ANALYZE)
        return _counts_of_tables(connection)

    return database.write_now(work, serializable=False)


def check_empty(connection: psycopg.Connection, database: StateDatabase) -> None:
    """Refuse, with a `UsageError`, a database in which something of a node is kept."""
    filled = [
        table
        for table in ("entry", "meta", "token", "event", "blob", "conversation", "node_key")
        if connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None
    ]
    if filled:
        raise UsageError(
            f"there is a state at {database.url} already ({', '.join(filled)}), and nothing was copied; name an empty"
            " database"
        )


def _rows_to_tables(source: Path, connection: psycopg.Connection, tables: dict[str, str]) -> None:
    with closing(sqlite3.connect(source)) as file:
        for table, columns in tables.items():
            _copy_in(connection, table, columns, file.execute(f"SELECT {columns} FROM {table}"))


def _copy_in(connection: psycopg.Connection, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _blobs_to_table(folder: Path, connection: psycopg.Connection) -> None:
    cids = [cid for (cid,) in connection.execute("SELECT cid FROM blob").fetchall()]
    _copy_in(connection, "blob_content", "cid, data", ((cid, blobs.file_of(folder, cid).read_bytes()) for cid in cids))


def _conversations_to_tables(folder: Path, connection: psycopg.Connection) -> None:
    store = ConversationStore(folder)
    for about, lines, contents in store.raw():
        shared_conversations.insert_raw(connection, about, lines, contents)


# ── a database to files ──────────────────────────────────────────────────────────────


def database_to_files(database: StateDatabase, folder: Path) -> StateCounts:
    """Copy the state in a database, as it is at one moment, into an empty folder, also while replicas use it.

    Raises:
        StateError: The database cannot be used.
    """
    for each in FILES:
        database.migrate(each.store.shared)
    for schema in (keys.SCHEMA, shared_conversations.SCHEMA, JOURNAL_SCHEMA):
        database.migrate(schema)
    make_folder(folder)

    def work(connection: psycopg.Connection) -> StateCounts:
        for left in folder.iterdir():  # the connection was lost in the middle, and all is read once more
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        connection.execute(_AT_LEISURE)
        for each in FILES:
            SqliteDatabase(folder / each.path, each.store).close()
            with closing(sqlite3.connect(folder / each.path)) as copy:
                for table, columns in each.tables.items():
                    marks = ", ".join("?" * (columns.count(",") + 1))
                    rows = _rows_of(connection, f"SELECT {columns} FROM {table}")
                    copy.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)
                copy.commit()
                copy.execute("PRAGMA journal_mode = DELETE")
        for cid, data in _rows_of(connection, "SELECT cid, data FROM blob_content"):
            path = blobs.file_of(folder / "blobs", cid)
            make_folder(path.parent)
            write_atomically(path, data)
        store = ConversationStore(folder)
        for about, lines, contents in shared_conversations.read_raw(connection):
            store.put_raw(about, lines, contents)
        row = connection.execute("SELECT value FROM node_key WHERE name = %s", (KEY,)).fetchone()
        if row is not None:
            create_key(folder / KEY, row[0])
        tables_to_journal(connection, database.url, folder / JOURNAL)
        return _counts_of_tables(connection)

    return database.read_now(work)


def _rows_of(connection: psycopg.Connection, statement: str) -> Iterator[tuple[Any, ...]]:
    """Rows in pieces: a table may be more than fits in memory."""
    with ExitStack() as stack:
        cursor = stack.enter_context(connection.cursor("copied"))
        cursor.itersize = _ROWS
        cursor.execute(statement)
        yield from cursor


def _counts_of_tables(connection: psycopg.Connection) -> StateCounts:
    def count(table: str) -> int:
        row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return 0 if row is None else int(row[0])

    return StateCounts(count("token"), count("conversation"), count("event"), count("blob"), count("entry"))


def _counts_of_files(folder: Path) -> StateCounts:
    def count(path: str, table: str) -> int:
        if not (folder / path).exists():
            return 0
        with closing(sqlite3.connect(folder / path)) as file:
            return int(file.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    talks = len(ConversationStore(folder).list()) if (folder / "conversations").is_dir() else 0
    kept = count("events.db", "event"), count("blobs/index.sqlite", "blob"), count(JOURNAL, "entry")
    return StateCounts(count(TOKENS, "token"), talks, *kept)
