"""What a node remembers of tokens: those it issued, those that were revoked, and how often each was used.

A SQLite file, for any number of processes, the shared state of several replicas, or memory. None of them holds a
token's text: from them nobody can make a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from handrail.core.ports import Clock, SystemClock
from handrail.node.tokens.token import CapabilityToken
from handrail.state.schema import Migration
from handrail.state.sql import Place, SqlConnection, StoreTables, open_tables

if TYPE_CHECKING:
    from handrail.state.database import StateDatabase

TABLES = StoreTables(
    "tokens",
    sqlite=(
        Migration(
            "0.1.0",
            """
            CREATE TABLE issued (
                id TEXT PRIMARY KEY, parent TEXT, issuer TEXT NOT NULL, subject TEXT NOT NULL,
                expires_at INTEGER NOT NULL, claims TEXT NOT NULL
            ) WITHOUT ROWID;
            CREATE INDEX issued_parent ON issued (parent);
            CREATE TABLE revoked (id TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
            CREATE TABLE used (id TEXT PRIMARY KEY, calls INTEGER NOT NULL) WITHOUT ROWID
            """,
        ),
        Migration("0.1.0", "ALTER TABLE used ADD COLUMN until INTEGER NOT NULL DEFAULT 4102444800"),
        Migration(
            "0.1.0",
            """
            DROP INDEX issued_parent;
            DROP INDEX IF EXISTS issued_subject;
            ALTER TABLE issued RENAME TO token;
            ALTER TABLE revoked RENAME TO token_revocation;
            ALTER TABLE used RENAME TO token_use;
            CREATE INDEX token_subject ON token (subject)
            """,
        ),
    ),
    postgres=(
        Migration(
            "0.1.0",
            """
            CREATE TABLE token (
                id TEXT PRIMARY KEY, parent TEXT, issuer TEXT NOT NULL, subject TEXT NOT NULL,
                expires_at BIGINT NOT NULL, claims TEXT NOT NULL
            );
            CREATE INDEX token_subject ON token (subject);
            CREATE INDEX token_expiry ON token (expires_at);
            CREATE TABLE token_revocation (id TEXT PRIMARY KEY, at BIGINT NOT NULL);
            CREATE TABLE token_use (id TEXT PRIMARY KEY, calls BIGINT NOT NULL, until BIGINT NOT NULL)
            """,
        ),
    ),
)
_KEPT = 7 * 86_400
"""Seconds that a token is remembered after its end."""
_DEEPEST = 32
_RENEWED = " ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at, claims = excluded.claims"


class IssuedToken(Struct, frozen=True):
    """A token that this node issued, and what became of it."""

    token: CapabilityToken
    calls: int
    revoked: bool
    """Itself, or one that it was made from."""


class TokenStore:
    """Close it when it is no longer needed. What nobody closed is closed when nobody can use it any more."""

    def __init__(
        self, place: StateDatabase | Place = None, *, clock: Clock = SystemClock(), patience: float = 10
    ) -> None:
        """In this file, for any number of processes, or in the shared state of several replicas; without one, in
        memory.

        Raises:
            UsageError: The file cannot be opened, or is something else.
            StateError: The shared state cannot be used.
        """
        self._clock = clock
        self._tables = open_tables(place, TABLES, patience=patience)

    @property
    def is_remote(self) -> bool:
        """Whether who asks waits for a server: then nobody asks in an event loop."""
        return self._tables.is_remote

    def close(self) -> None:
        self._tables.close()

    def record(self, token: CapabilityToken, *, again: bool = False) -> None:
        """Note a token that was issued here; `again` if one with its id may have been.

        Raises:
            BusError: It cannot be written, or was issued before (`internal_error`).
        """
        ended = self._clock.now() // 1000 - _KEPT
        claims = msgspec.json.encode(token).decode()
        values = (token.id, token.parent, token.issuer, token.subject, token.expires_at, claims)

        def work(tables: SqlConnection) -> None:
            known = "SELECT id FROM token WHERE expires_at < ?"
            tables.execute(f"DELETE FROM token_revocation WHERE id IN ({known})", (ended,))
            tables.execute("DELETE FROM token_use WHERE until < ?", (ended,))
            tables.execute("DELETE FROM token WHERE expires_at < ?", (ended,))
            tables.execute(f"INSERT INTO token VALUES (?, ?, ?, ?, ?, ?){_RENEWED if again else ''}", values)

        self._tables.write_now(work, alone=False)

    def get(self, id: str) -> IssuedToken | None:
        """A token that was issued here."""

        def work(tables: SqlConnection) -> IssuedToken | None:
            token = _found(tables, id)
            return None if token is None else _entry(tables, token)

        return self._tables.read_now(work)

    def issued(self) -> list[IssuedToken]:
        """Every remembered token that was issued here, oldest first."""

        def work(tables: SqlConnection) -> list[IssuedToken]:
            rows = tables.execute("SELECT claims FROM token ORDER BY id").fetchall()
            return [_entry(tables, _token(claims)) for (claims,) in rows]

        return self._tables.read_now(work)

    def chain(self, token: CapabilityToken) -> list[CapabilityToken]:
        """The token, the one it was made from, and so on, as far as they are known here.

        Whoever signs a token can write anything as its parent: only one of the same issuer is.
        """
        return self._tables.read_now(lambda tables: _chain(tables, token))

    def is_known(self, id: str) -> bool:
        return self._tables.read_now(lambda tables: _found(tables, id)) is not None

    def knows_holder(self, node: str) -> bool:
        """Whether a token that has not ended was issued to this node, by its id."""
        asked = "SELECT 1 FROM token WHERE subject = ? AND expires_at > ? LIMIT 1"
        values = (node, self._clock.now() // 1000)
        return self._tables.read_now(lambda tables: tables.execute(asked, values).fetchone()) is not None

    def revoke(self, id: str) -> None:
        """Revokes a token and every token derived from it, or, by the id of an issuer, all tokens of that issuer."""
        noted = "INSERT INTO token_revocation VALUES (?, ?) ON CONFLICT DO NOTHING"
        self._tables.write_now(lambda tables: tables.execute(noted, (id, self._clock.now())), alone=False)

    def any_revoked(self, ids: Sequence[str]) -> bool:
        return self._tables.read_now(lambda tables: _any_revoked(tables, ids))

    def calls(self, id: str) -> int:
        return self._tables.read_now(lambda tables: _calls(tables, id))

    def count(self, limits: Mapping[str, int], until: int) -> bool:
        """Count one more call for each of these ids, if each stays within its limit; else none of them.

        `until` is when the last of them ends, in seconds since 1970: so long they are remembered at least.
        """
        begin = "INSERT INTO token_use VALUES (?, 1, ?) ON CONFLICT DO NOTHING"
        add = (
            "UPDATE token_use SET calls = calls + 1, until = CASE WHEN until < ? THEN ? ELSE until END"
            " WHERE id = ? AND calls < ?"
        )

        def work(tables: SqlConnection) -> None:
            for id, most in sorted(limits.items()):
                begun = most > 0 and tables.execute(begin, (id, until)).rowcount
                if not begun and not tables.execute(add, (until, until, id, most)).rowcount:
                    raise _UsedUp

        try:
            self._tables.write_now(work, alone=False)
        except _UsedUp:
            return False
        return True


class _UsedUp(Exception):
    """A limit is reached; what was counted in the same transaction is not."""


def _entry(tables: SqlConnection, token: CapabilityToken) -> IssuedToken:
    ids = [each.id for each in _chain(tables, token)]
    return IssuedToken(token, _calls(tables, token.id), _any_revoked(tables, [*ids, token.issuer]))


def _chain(tables: SqlConnection, token: CapabilityToken) -> list[CapabilityToken]:
    found = [token]
    while (above := found[-1].parent) is not None and len(found) < _DEEPEST:
        parent = _found(tables, above)
        if parent is None or parent.issuer != token.issuer:
            break
        found.append(parent)
    return found


def _found(tables: SqlConnection, id: str) -> CapabilityToken | None:
    row = tables.execute("SELECT claims FROM token WHERE id = ?", (id,)).fetchone()
    return None if row is None else _token(row[0])


def _any_revoked(tables: SqlConnection, ids: Sequence[str]) -> bool:
    marks = ", ".join("?" * len(ids))
    return tables.execute(f"SELECT 1 FROM token_revocation WHERE id IN ({marks}) LIMIT 1", ids).fetchone() is not None


def _calls(tables: SqlConnection, id: str) -> int:
    row = tables.execute("SELECT calls FROM token_use WHERE id = ?", (id,)).fetchone()
    return 0 if row is None else int(row[0])


def _token(claims: str) -> CapabilityToken:
    return msgspec.json.decode(claims, type=CapabilityToken)
