"""The journal's tables, how its file is opened and copied, and what its errors mean to a person.

A commit costs by the page, so an append touches one table and no index: salt and data
of a body stand in the row of their entry, and where the entries of a run are is noted
in `span`, up to the last checkpoint, whenever one is signed. Either would cost every
append 8 to 12 %. What came after the last checkpoint is short and is looked through.
For the same reason `batches.py` notes more only then, and for many entries together.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Literal

from handrail.core.errors import JournalError, UsageError
from handrail.core.keyfile import sync_folder
from handrail.journal import batches, stored_tree
from handrail.journal.journal_files import (
    check_log_present,
    check_not_lost,
    mark_creation,
    unmark_creation,
    write_ahead_log,
)
from handrail.journal.keys import Signer
from handrail.journal.places import JournalPlace
from handrail.state.sqlite_retry import primary_code, retry_while_busy

FORMAT = 1
"""The version of the tables. The leaves carry a version of their own."""

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entry (
    seq INTEGER PRIMARY KEY, run TEXT NOT NULL, n INTEGER NOT NULL, call TEXT, type TEXT NOT NULL, at INTEGER NOT NULL,
    leaf BLOB NOT NULL, hash BLOB NOT NULL, salt BLOB, data BLOB
);
CREATE TABLE span (
    run TEXT PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, n INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE checkpoint (size INTEGER PRIMARY KEY, note TEXT NOT NULL, frontier BLOB NOT NULL);
"""
_EXACT = "CREATE TABLE IF NOT EXISTS exact (seq INTEGER PRIMARY KEY, data BLOB NOT NULL)"
"""Encrypted bodies, by entry (`body_encryption.py`). A journal of an earlier handrail gets the table when opened."""

_EFFECTS = """
CREATE TABLE IF NOT EXISTS effect (
    identity BLOB NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (identity, seq)
) WITHOUT ROWID
"""
"""Where each side effect was asked about or begun. An identity is blinded with the key of the journal, so that it tells
nothing about arguments that were erased."""

FATAL = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

_WAYS_OUT = {
    sqlite3.SQLITE_FULL: "the disk is full; make room, then try again",
    sqlite3.SQLITE_READONLY: "it cannot be written; give the user write permission on the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that its folder exists and can be written",
    sqlite3.SQLITE_BUSY: "another process keeps it locked; end that process, then try again",
    sqlite3.SQLITE_IOERR: "reading or writing failed; check the disk, then open the journal again",
    sqlite3.SQLITE_CORRUPT: "it is damaged; keep a copy, and run: handrail proof verify",
    sqlite3.SQLITE_NOTADB: "it is not a journal; choose another path",
}

_LIKE = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EIO: sqlite3.SQLITE_IOERR,
}
"""What the system says when a file is opened, as SQLite would say it."""


class JournalBusy(Exception):
    """Another process is writing. Nothing was written, and the caller should try again; it never leaves this
    package."""


def connect(
    path: Path, signer: Signer | None, origin: str | None, patience: float
) -> tuple[sqlite3.Connection, Signer]:
    """Open or make the file of a journal, for writing.

    Raises:
        JournalError: It cannot be opened, is not a journal, a later version made it, or another key signs it.
            Or one was begun here and is lost.
    """
    try:
        check_not_lost(path, key_file(path) if signer is None else None)
        check_log_present(path)
        mark_creation(path)
        _create_file(path)
        connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise explain_failure(path, error) from error
    try:
        retry_while_busy(partial(_configure, connection, path), patience)
        meta = read_meta(connection)
        name = meta.get("origin") or origin or default_origin(path)
        if signer is None:
            signer = own_signer(path, name) if meta else Signer.load_or_create(key_file(path), name)
        retry_while_busy(partial(_create, connection, name, signer), patience)
        unmark_creation(path)
        _check_format(connection, path)
        _check_key(connection, path, signer)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):
            raise explain_failure(path, error) from error
        raise
    return connection, signer


def connect_in_memory(origin: str, signer: Signer) -> sqlite3.Connection:
    """A new journal without a file."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _create(connection, origin, signer)
    return connection


def _create_file(path: Path) -> None:
    """Make the file, for its owner only; SQLite gives its other files the same mode.

    One that is there and can be written is not opened: closing it would drop the locks that another connection of this
    process holds on it.

    Raises:
        OSError: It cannot be made or written.
    """
    if not os.access(path, os.R_OK | os.W_OK):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def connect_existing(path: Path, mode: Literal["ro", "rw"], patience: float = 10) -> sqlite3.Connection:
    """Open the file of a journal that is there, without its key: to read it, or to erase bodies.

    Raises:
        JournalError: There is no journal there, or a later version made it.
    """
    if not path.is_file():
        raise JournalError(f"there is no journal at {str(path)!r}; check the path")
    check_log_present(path)
    try:
        return _checked(path, f"{path.absolute().as_uri()}?mode={mode}", patience)
    except sqlite3.Error as error:
        if mode == "ro" and primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            return _unwritable(path, patience)
        raise explain_failure(path, error) from error
    except UnicodeDecodeError as error:
        raise explain_failure(path, error) from error


def _checked(
    path: Path, address: str, patience: float, factory: type[sqlite3.Connection] = sqlite3.Connection
) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, timeout=patience, isolation_level=None, factory=factory)
    try:
        _check_tables(connection, path)
        _check_format(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _unwritable(path: Path, patience: float) -> sqlite3.Connection:
    """A journal on a disk that cannot be written, where SQLite cannot make the files that it shares with writers.

    Without a log it is read as it stands. With one, both are copied: the log cannot be read without writing beside it.
    """
    import shutil  # few journals are read so
    import tempfile

    try:
        if not write_ahead_log(path).exists() or write_ahead_log(path).stat().st_size == 0:
            return _checked(path, f"{path.absolute().as_uri()}?mode=ro&immutable=1", patience)
        folder = tempfile.TemporaryDirectory(prefix="handrail-journal-")
        copy = Path(folder.name) / path.name
        for source, target in ((path, copy), (write_ahead_log(path), write_ahead_log(copy))):
            shutil.copyfile(source, target)

        class Copy(sqlite3.Connection):
            def close(self) -> None:
                super().close()
                folder.cleanup()

        return _checked(path, f"{copy.as_uri()}?mode=rw", patience, Copy)
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        raise explain_failure(path, error) from error


def explain_failure(path: JournalPlace, error: sqlite3.Error | OSError | UnicodeDecodeError) -> JournalError:
    """A failure of the file as an error that says what to do."""
    if isinstance(error, UnicodeDecodeError):  # what SQLite has to say of a damaged file may itself be damaged
        code, what = sqlite3.SQLITE_CORRUPT, str(error)
    elif isinstance(error, OSError):
        code = _LIKE.get(error.errno or 0, sqlite3.SQLITE_CANTOPEN)
        what = error.strerror or str(error)
    else:
        code, what = primary_code(error), str(error)
        if code == sqlite3.SQLITE_IOERR:
            what = f"{what}, {error.sqlite_errorname}"  # it says which of reading, writing and syncing failed
    way_out = _WAYS_OUT.get(code, "SQLite refused")
    return JournalError(f"the journal {str(path)!r}: {way_out} ({what})")


def key_file(path: Path) -> Path:
    """The file of a journal's key, unless its signer comes from elsewhere."""
    return path.with_suffix(".key")


def own_signer(path: Path, origin: str) -> Signer:
    """The signer of a journal that is there, from the key beside it.

    Raises:
        JournalError: The key is not there, or cannot be used.
    """
    key = key_file(path)
    if not key.exists():
        raise JournalError(f"the key {str(key)!r} that signs this journal is not there; put it back, or give a signer")
    return Signer.load_or_create(key, origin)


def default_origin(path: Path) -> str:
    return "handrail/" + (re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem) or "journal")


def read_meta(connection: sqlite3.Connection) -> dict[str, str]:
    """What the journal says of itself. A value that is no text says nothing."""
    if isinstance(connection, sqlite3.Connection) and not has_table(connection, "meta"):
        return {}
    rows = connection.execute("SELECT key, value FROM meta")
    return {key: value for key, value in rows if isinstance(key, str) and isinstance(value, str)}


def has_exact(connection: sqlite3.Connection) -> bool:
    """Whether the journal has a table of encrypted bodies; one that was only read by a new handrail has none."""
    return not isinstance(connection, sqlite3.Connection) or has_table(connection, "exact")


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Whether a file has a table; in a shared state all of them are there."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def _configure(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        _check_tables(connection, path)
        _check_format(connection, path)  # before anything is done to it
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # the writer does it, when nobody waits
    connection.execute("PRAGMA fullfsync = 1")  # on a Mac a plain sync does not reach the disk
    connection.execute("PRAGMA synchronous = FULL")


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"meta", "entry", "checkpoint"} <= tables:
        raise JournalError(f"{str(path)!r} is a database, but not a journal; choose another path")


def _create(connection: sqlite3.Connection, origin: str, signer: Signer) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if not read_meta(connection):
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        meta = {"format": str(FORMAT), "origin": origin, "key": signer.verifier_key}
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
    connection.execute(_EXACT)
    connection.execute(_EFFECTS)
    for table in (stored_tree.TABLE, *batches.TABLES):
        connection.execute(table)
    connection.execute("COMMIT")


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    found = read_meta(connection).get("format", "")
    if found == str(FORMAT):
        return
    way_out = "upgrade handrail"
    if found.isdecimal() and len(found) < 9 and int(found) < FORMAT:
        way_out = "read it with the handrail that wrote it, and begin a new one"
    raise JournalError(f"the journal {str(path)!r} has format {found!r}, and this handrail reads {FORMAT}; {way_out}")


def _check_key(connection: sqlite3.Connection, path: Path, signer: Signer) -> None:
    key = read_meta(connection).get("key")
    if key != signer.verifier_key:
        raise JournalError(f"the journal {str(path)!r} is signed with another key ({key!r}); put its key file back")


def back_up(path: Path, target: Path) -> int:
    """Copy a journal as it stands into a new file that needs no other file beside it. How many entries it has.

    The key is not copied: whoever has it could sign another history.

    Raises:
        UsageError: The target is there already.
        JournalError: The journal cannot be read, or the copy not written.
    """
    try:
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        raise UsageError(f"{str(target)!r} is there already; name a file that does not exist") from error
    except OSError as error:
        raise explain_failure(target, error) from error
    try:
        count = _copied(path, target)
        sync_folder(target.absolute().parent)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return count


def _copied(path: Path, target: Path) -> int:
    with closing(connect_existing(path, "ro")) as source, closing(sqlite3.connect(target)) as copy:
        try:
            source.backup(copy)
            copy.execute("PRAGMA synchronous = FULL")
            copy.execute("PRAGMA journal_mode = DELETE")  # so it can be read where nothing can be written
            return int(copy.execute("SELECT count(*) FROM entry").fetchone()[0])
        except sqlite3.Error as error:
            raise explain_failure(target, error) from error
