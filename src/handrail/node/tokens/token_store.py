"""What a node remembers of tokens: those it issued, those that were revoked, and how often each was used.

A SQLite file, for any number of processes, or memory. Neither holds a token's text: from
this file nobody can make a call.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from handrail.core.errors import BusError, UsageError
from handrail.core.ports import Clock, SystemClock
from handrail.journal.sqlite_retry import retry_while_busy
from handrail.node.tokens.token import CapabilityToken

_TABLES = """
CREATE TABLE IF NOT EXISTS issued (
    id TEXT PRIMARY KEY, parent TEXT, issuer TEXT NOT NULL, subject TEXT NOT NULL, expires_at INTEGER NOT NULL,
    claims TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS issued_parent ON issued (parent);
CREATE INDEX IF NOT EXISTS issued_subject ON issued (subject);
CREATE TABLE IF NOT EXISTS revoked (id TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS used (id TEXT PRIMARY KEY, calls INTEGER NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID;
"""
_LATER = {1: "ALTER TABLE used ADD COLUMN until INTEGER NOT NULL DEFAULT 4102444800"}
"""What a file of an earlier format lacks."""
_FORMAT = 2
_KEPT = 7 * 86_400
"""Seconds that a token is remembered after its end."""
_DEEPEST = 32


class IssuedToken(Struct, frozen=True):
    """A token that this node issued, and what became of it."""

    token: CapabilityToken
    calls: int
    revoked: bool
    """Itself, or one that it was made from."""


class TokenStore:
    """Close it when it is no longer needed. What nobody closed is closed when nobody can use it any more."""

    def __init__(self, path: Path | None = None, *, clock: Clock = SystemClock(), patience: float = 10) -> None:
        """In this file, for any number of processes; without one, in memory.

        Raises:
            UsageError: The file cannot be opened, or is something else.
        """
        self._clock = clock
        self._lock = threading.Lock()
        try:
            with ExitStack() as opened:
                if path is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                self._file = opened.enter_context(closing(_connected(path, patience)))
                self._prepare(patience)
                # Who reads waits for no writer: calls are admitted in the event loop.
                self._reader, self._read_lock = self._file, self._lock
                if path is not None:
                    self._reader = opened.enter_context(closing(_connected(path, patience)))
                    self._read_lock = threading.Lock()
                self._close = weakref.finalize(self, opened.pop_all().close)
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"the store of tokens {str(path)!r} cannot be used: {error}; check the file") from error

    def close(self) -> None:
        self._close()

    def record(self, token: CapabilityToken) -> None:
        """Note a token that was issued here.

        Raises:
            BusError: It cannot be written, or was issued before (`internal_error`).
        """
        claims = msgspec.json.encode(token).decode()
        now = self._clock.now() // 1000
        with self._writing() as file:
            ended = "SELECT id FROM issued WHERE expires_at < ?"
            file.execute(f"DELETE FROM revoked WHERE id IN ({ended})", (now - _KEPT,))
            file.execute("DELETE FROM used WHERE until < ?", (now - _KEPT,))
            file.execute("DELETE FROM issued WHERE expires_at < ?", (now - _KEPT,))
            values = (token.id, token.parent, token.issuer, token.subject, token.expires_at, claims)
            file.execute("INSERT INTO issued VALUES (?, ?, ?, ?, ?, ?)", values)

    def get(self, id: str) -> IssuedToken | None:
        """A token that was issued here."""
        with self._reading() as file:
            row = file.execute("SELECT claims FROM issued WHERE id = ?", (id,)).fetchone()
        return None if row is None else self._entry(row[0])

    def issued(self) -> list[IssuedToken]:
        """Every token that was issued here and is remembered, oldest first."""
        with self._reading() as file:
            rows = file.execute("SELECT claims FROM issued ORDER BY id").fetchall()
        return [self._entry(claims) for (claims,) in rows]

    def chain(self, token: CapabilityToken) -> list[CapabilityToken]:
        """The token, the one it was made from, and so on, as far as they are known here.

        Whoever signs a token can write anything as its parent: only one of the same issuer is.
        """
        found = [token]
        with self._reading() as file:
            while (above := found[-1].parent) is not None and len(found) < _DEEPEST:
                row = file.execute("SELECT claims FROM issued WHERE id = ?", (above,)).fetchone()
                if row is None or (parent := _token(row[0])).issuer != token.issuer:
                    break
                found.append(parent)
        return found

    def is_known(self, id: str) -> bool:
        with self._reading() as file:
            return file.execute("SELECT 1 FROM issued WHERE id = ?", (id,)).fetchone() is not None

    def knows_holder(self, node: str) -> bool:
        """Whether a token that has not ended was issued to this node, by its id."""
        asked = "SELECT 1 FROM issued WHERE subject = ? AND expires_at > ? LIMIT 1"
        with self._reading() as file:
            return file.execute(asked, (node, self._clock.now() // 1000)).fetchone() is not None

    def revoke(self, id: str) -> None:
        """Revokes a token and every token derived from it, or, by the id of an issuer, all tokens of that issuer."""
        with self._writing() as file:
            file.execute("INSERT OR IGNORE INTO revoked VALUES (?, ?)", (id, self._clock.now()))

    def any_revoked(self, ids: Sequence[str]) -> bool:
        marks = ", ".join("?" * len(ids))
        with self._reading() as file:
            return file.execute(f"SELECT 1 FROM revoked WHERE id IN ({marks}) LIMIT 1", ids).fetchone() is not None

    def calls(self, id: str) -> int:
        with self._reading() as file:
            row = file.execute("SELECT calls FROM used WHERE id = ?", (id,)).fetchone()
        return 0 if row is None else int(row[0])

    def count(self, limits: Mapping[str, int], until: int) -> bool:
        """Count one more call for each of these ids, if each stays within its limit; else none of them.

        `until` is when the last of them ends, in seconds since 1970: so long they are remembered at least.
        """
        add = "INSERT INTO used VALUES (?, 1, ?) ON CONFLICT DO UPDATE SET calls = calls + 1, until = max(until, ?)"
        with self._writing() as file:
            for id, most in limits.items():
                file.execute(add, (id, until, until))
                (calls,) = file.execute("SELECT calls FROM used WHERE id = ?", (id,)).fetchone()
                if calls > most:
                    file.execute("ROLLBACK")
                    return False
        return True

    def _entry(self, claims: str) -> IssuedToken:
        token = _token(claims)
        ids = [each.id for each in self.chain(token)]
        return IssuedToken(token, self.calls(token.id), self.any_revoked([*ids, token.issuer]))

    def _prepare(self, patience: float) -> None:
        self._file.execute("BEGIN")
        version = self._version()
        tables = self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        self._file.execute("COMMIT")
        if version > _FORMAT or (tables and not version):
            raise sqlite3.DatabaseError("it is another database, or a later handrail made it")
        retry_while_busy(lambda: self._file.execute("PRAGMA journal_mode = WAL"), patience)
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute("BEGIN IMMEDIATE")
        for statement in _TABLES.split(";"):
            self._file.execute(statement)
        if (lacks := _LATER.get(self._version())) is not None:
            self._file.execute(lacks)
        self._file.execute(f"PRAGMA user_version = {_FORMAT}")
        self._file.execute("COMMIT")

    def _version(self) -> int:
        return int(self._file.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._read_lock:
            try:
                yield self._reader
            except sqlite3.Error as error:
                raise BusError("internal_error", f"the store of tokens cannot be read: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, short, and whole or not at all."""
        file = self._file
        with self._lock:
            try:
                file.execute("BEGIN IMMEDIATE")
                yield file
                if file.in_transaction:
                    file.execute("COMMIT")
            except sqlite3.Error as error:
                raise BusError("internal_error", f"the store of tokens cannot be written: {error}") from error
            finally:
                if file.in_transaction:
                    file.execute("ROLLBACK")


def _connected(path: Path | None, patience: float) -> sqlite3.Connection:
    name = ":memory:" if path is None else path
    return sqlite3.connect(name, timeout=patience, isolation_level=None, check_same_thread=False)


def _token(claims: str) -> CapabilityToken:
    return msgspec.json.decode(claims, type=CapabilityToken)
