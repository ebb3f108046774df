"""The journal's tables in PostgreSQL, and a connection on which the statements of the SQLite journal work.

The statements of both engines are the same but for their placeholders; where they differ, `PostgresWriter` has its own.
Errors of the server come as a `JournalError` that says what to do, so nobody above knows which engine it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from handrail.core.errors import JournalError, StateError, StateUnavailable
from handrail.core.jsontext import is_unicode
from handrail.journal import escape
from handrail.journal.keys import Signer, check_name
from handrail.state.connections import connect, explain, load_psycopg
from handrail.state.schema import Migration, StoreSchema, check_version
from handrail.state.url import StateUrl

if TYPE_CHECKING:
    import psycopg

APPEND_LOCK = 7_276_548_022
"""The advisory lock of whoever appends, and of whoever takes a lease: in one database they come one after the other."""
NOTES_LOCK = 7_276_548_023
"""The lock of whoever notes whose entries are whose. Appends do not wait for it."""
ORIGIN = "handrail/state"

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE signing_key (name TEXT PRIMARY KEY, secret TEXT NOT NULL);
CREATE TABLE entry (
    seq BIGINT PRIMARY KEY, run TEXT NOT NULL, n BIGINT NOT NULL, call TEXT, type TEXT NOT NULL, at BIGINT NOT NULL,
    leaf BYTEA NOT NULL, hash BYTEA NOT NULL, salt BYTEA, data BYTEA
);
CREATE TABLE span (run TEXT PRIMARY KEY, first BIGINT NOT NULL, last BIGINT NOT NULL, n BIGINT NOT NULL);
CREATE TABLE checkpoint (size BIGINT PRIMARY KEY, note TEXT NOT NULL, frontier BYTEA NOT NULL);
CREATE TABLE exact (seq BIGINT PRIMARY KEY, data BYTEA NOT NULL);
CREATE TABLE effect (identity BYTEA NOT NULL, seq BIGINT NOT NULL, PRIMARY KEY (identity, seq));
CREATE INDEX confirmation ON entry (seq) WHERE type IN ('confirmation.requested', 'confirmation.answered');
CREATE SEQUENCE fence;
CREATE TABLE lease (
    run TEXT PRIMARY KEY, fence BIGINT NOT NULL, owner TEXT NOT NULL, holder TEXT NOT NULL, expires TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50);

CREATE FUNCTION append_entries(
    durable BOOLEAN, expected BIGINT, leased TEXT[], fences BIGINT[], seqs BIGINT[], runs TEXT[], ns BIGINT[],
    calls TEXT[], types TEXT[], ats BIGINT[], leaves BYTEA[], hashes BYTEA[], salts BYTEA[], datas BYTEA[],
    exacts BIGINT[], exact_datas BYTEA[], effects BYTEA[], effect_seqs BIGINT[]
) RETURNS TEXT LANGUAGE plpgsql AS $$
DECLARE
    gone TEXT;
BEGIN
    IF NOT durable THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    PERFORM pg_advisory_xact_lock(7276548022);
    IF expected <> (SELECT coalesce(max(seq) + 1, 0) FROM entry) THEN
        RETURN 'behind';
    END IF;
    SELECT held.run INTO gone FROM unnest(leased, fences) AS held (run, fence)
        LEFT JOIN lease ON lease.run = held.run AND lease.fence = held.fence WHERE lease.run IS NULL LIMIT 1;
    IF FOUND THEN
        RETURN 'lost ' || gone;
    END IF;
    INSERT INTO entry SELECT * FROM unnest(seqs, runs, ns, calls, types, ats, leaves, hashes, salts, datas);
    IF cardinality(exacts) > 0 THEN
        INSERT INTO exact SELECT * FROM unnest(exacts, exact_datas);
    END IF;
    IF cardinality(effects) > 0 THEN
        INSERT INTO effect SELECT * FROM unnest(effects, effect_seqs);
    END IF;
    IF 'confirmation.answered' = ANY (types) THEN
        PERFORM pg_notify('handrail', E'answers\\n');
    END IF;
    RETURN '';
END
$$
"""
_LEASES = """
CREATE FUNCTION take_lease(wanted TEXT, by TEXT, who TEXT, seconds DOUBLE PRECISION)
RETURNS TABLE (fence BIGINT, holder TEXT) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    -- Whoever had it may be appending: what is read after this has all of it.
    PERFORM pg_advisory_xact_lock(7276548022);
    RETURN QUERY INSERT INTO lease AS known
        VALUES (wanted, nextval('fence'), by, who, clock_timestamp() + make_interval(secs => seconds))
        ON CONFLICT (run) DO UPDATE
            SET fence = excluded.fence, owner = by, holder = who, expires = excluded.expires
            WHERE known.expires < clock_timestamp() OR known.owner = by
        RETURNING known.fence, NULL;
    IF NOT FOUND THEN
        RETURN QUERY SELECT NULL::BIGINT, known.holder FROM lease AS known WHERE known.run = wanted;
    END IF;
END
$$
"""
"""A lease that a crash of the server loses is one that nobody holds: its owner can append nothing more."""
_NOTES = """
CREATE TABLE subtree (level BIGINT NOT NULL, start BIGINT NOT NULL, hash BYTEA NOT NULL, PRIMARY KEY (level, start));
CREATE TABLE batch (
    start BIGINT PRIMARY KEY, runs BYTEA NOT NULL, calls BYTEA NOT NULL, began BYTEA NOT NULL, mark BYTEA NOT NULL
);
-- A search reads all of them: what lies in the row itself need not be put together first.
ALTER TABLE batch ALTER runs SET STORAGE PLAIN, ALTER calls SET STORAGE PLAIN;
CREATE TABLE waiting (seq BIGINT PRIMARY KEY, run TEXT NOT NULL, request TEXT NOT NULL);
CREATE FUNCTION instr(data BYTEA, wanted BYTEA) RETURNS INTEGER LANGUAGE sql IMMUTABLE AS
    'SELECT position(wanted IN data)'
"""
"""What is noted of the entries, as in a file (`batches.py`, `stored_tree.py`)."""
_BY_RUN = "CREATE INDEX entry_run ON entry (run, seq)"
"""For whoever looks at a run. What is signed is found by the notes, which nobody can change without the key."""
_OWNED = """
DROP FUNCTION append_entries(
    BOOLEAN, BIGINT, TEXT[], BIGINT[], BIGINT[], TEXT[], BIGINT[], TEXT[], TEXT[], BIGINT[], BYTEA[], BYTEA[], BYTEA[],
    BYTEA[], BIGINT[], BYTEA[], BYTEA[], BIGINT[]
);
CREATE FUNCTION append_entries(
    by TEXT, durable BOOLEAN, expected BIGINT, leased TEXT[], fences BIGINT[], seqs BIGINT[], runs TEXT[], ns BIGINT[],
    calls TEXT[], types TEXT[], ats BIGINT[], leaves BYTEA[], hashes BYTEA[], salts BYTEA[], datas BYTEA[],
    exacts BIGINT[], exact_datas BYTEA[], effects BYTEA[], effect_seqs BIGINT[]
) RETURNS TEXT LANGUAGE plpgsql AS $$
DECLARE
    gone TEXT;
BEGIN
    IF NOT durable THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    PERFORM pg_advisory_xact_lock(7276548022);
    IF expected <> (SELECT coalesce(max(seq) + 1, 0) FROM entry) THEN
        RETURN 'behind';
    END IF;
    -- A crash of the server may take a lease back, and its number is given out again: so to whom counts too.
    SELECT held.run INTO gone FROM unnest(leased, fences) AS held (run, fence)
        LEFT JOIN lease ON lease.run = held.run AND lease.fence = held.fence AND lease.owner = by
        WHERE lease.run IS NULL LIMIT 1;
    IF FOUND THEN
        RETURN 'lost ' || gone;
    END IF;
    INSERT INTO entry SELECT * FROM unnest(seqs, runs, ns, calls, types, ats, leaves, hashes, salts, datas);
    IF cardinality(exacts) > 0 THEN
        INSERT INTO exact SELECT * FROM unnest(exacts, exact_datas);
    END IF;
    IF cardinality(effects) > 0 THEN
        INSERT INTO effect SELECT * FROM unnest(effects, effect_seqs);
    END IF;
    IF 'confirmation.answered' = ANY (types) THEN
        PERFORM pg_notify('handrail', E'answers\\n');
    END IF;
    RETURN '';
END
$$
"""
_BY_NAME = "CREATE INDEX span_name ON span (run text_pattern_ops)"
"""For whoever names a run by the beginning of its id."""
SCHEMA = StoreSchema(
    "journal",
    (
        Migration("0.2.0", f"{_TABLES};{_LEASES}"),
        Migration("0.2.0", f"{_NOTES};{_BY_RUN}"),
        Migration("0.2.0", f"{_OWNED};{_BY_NAME}"),
    ),
)
_NAMED = re.compile(r"(?<![:\w]):([a-z_]+)")
_PREFIX = "$text:"
_Values = Sequence[Any] | Mapping[str, Any]


@lru_cache(maxsize=256)
def _translated(statement: str) -> str:
    """Placeholders as psycopg has them. No statement of ours has one of these signs in a text."""
    return _NAMED.sub(r"%(\1)s", statement).replace("?", "%s")


class PostgresTables:
    """A connection to the tables of a journal that takes the statements of SQLite."""

    def __init__(self, url: StateUrl, connection: psycopg.Connection, close: Callable[[], None] | None = None) -> None:
        self.url = url
        self.connection = connection
        self._close = close
        self._names = 0

    def execute(self, statement: str, values: _Values = ()) -> TranslatedRows:
        """What a statement finds.

        Raises:
            JournalError: The server cannot be asked, or refuses.
        """
        with self.explained():
            if "FROM entry ORDER BY seq" in statement and "LIMIT" not in statement:
                return TranslatedRows(self, self._in_pieces(_translated(statement), values))
            found = self.connection.execute(_translated(statement), _written(values) or None)
            return TranslatedRows(self, iter(found.fetchall() if found.description is not None else ()), found.rowcount)

    def executemany(self, statement: str, rows: Iterable[_Values]) -> None:
        """Execute a statement with each of these values.

        Raises:
            JournalError: The server cannot be asked, or refuses.
        """
        with self.explained(), self.connection.cursor() as cursor:
            cursor.executemany(_translated(statement), [_written(values) for values in rows])

    def _in_pieces(self, statement: str, values: _Values) -> Iterator[tuple[Any, ...]]:
        """Rows of the whole journal, which may be more than fit in memory."""
        self._names += 1
        with self.connection.cursor(f"rows_{self._names}", withhold=True) as cursor:
            cursor.itersize = 1000
            cursor.execute(statement, _written(values) or None)
            yield from cursor

    @contextmanager
    def explained(self, *, committing: bool = False) -> Iterator[None]:
        """Errors of the server as ours.

        Raises:
            JournalError: It failed.
        """
        try:
            yield
        except load_psycopg().Error as error:
            raise journal_error(explain(self.url, error, self.connection, committing=committing)) from error

    def close(self) -> None:
        if self._close is None:
            self.connection.close()  # the one of now: a writer makes a new one when it was lost
        else:
            self._close()


class TranslatedRows:
    """The rows of a statement, with names of runs and calls as SQLite keeps them."""

    def __init__(self, tables: PostgresTables, rows: Iterator[tuple[Any, ...]], count: int = -1) -> None:
        self._tables = tables
        self._rows = rows
        self.rowcount = count

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        with self._tables.explained():
            yield from map(_read, self._rows)

    def fetchone(self) -> Any:
        return next(iter(self), None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self)


class StateLost(JournalError):
    """The server is gone; what was written before may have been kept."""


def journal_error(error: StateError) -> JournalError:
    """An error of the state as one of the journal."""
    return StateLost(str(error)) if isinstance(error, StateUnavailable) else JournalError(str(error))


def written_text(text: str) -> str:
    """A text as PostgreSQL can hold it, which takes no NUL; it is read back as it was."""
    return _PREFIX + text.encode("utf-8", "surrogatepass").hex() if "\0" in text else text


def _written(values: _Values) -> Any:
    if isinstance(values, Mapping):
        return {key: written_text(value) if isinstance(value, str) else value for key, value in values.items()}
    return tuple(written_text(value) if isinstance(value, str) else value for value in values)


def _read(row: tuple[Any, ...]) -> tuple[Any, ...]:
    for value in row:
        if isinstance(value, str) and value.startswith(_PREFIX):
            return tuple(_read_text(each) if isinstance(each, str) else each for each in row)
    return row


def _read_text(text: str) -> str:
    if not text.startswith(_PREFIX):
        return text
    found = escape.uncolumn(text)
    return found if "\0" in found and is_unicode(found) else text


def connect_to_read(url: StateUrl, **settings: str) -> PostgresTables:
    """A connection to a journal that is there.

    Raises:
        JournalError: There is none, it cannot be reached, or a later handrail made it.
    """
    try:
        connection = connect(url, **settings)
    except StateError as error:
        raise journal_error(error) from error
    return checked_tables(url, connection)


def checked_tables(
    url: StateUrl, connection: psycopg.Connection, close: Callable[[], None] | None = None
) -> PostgresTables:
    """The tables of a journal that is there, on a connection, which is closed if it is not.

    Raises:
        JournalError: There is none, or a later handrail made it.
    """
    tables = PostgresTables(url, connection, close)
    try:
        with tables.explained():
            if check_version(connection, url, SCHEMA) == 0:
                raise JournalError(f"there is no journal in {url}; a node makes it when it is started with this state")
    except BaseException as error:
        tables.close()
        if isinstance(error, StateError):
            raise journal_error(error) from error
        raise
    return tables


def set_up(connection: psycopg.Connection, signer: Signer | None, origin: str | None) -> Signer:
    """Name the journal and its key if nobody has, in the transaction under way; the key that signs.

    Raises:
        JournalError: Another key signs it, or its key is not in the database and was not given.
    """
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (APPEND_LOCK,))
    meta = read_meta(connection)
    if not meta:
        name = origin or ORIGIN
        check_name(name)
        if signer is None:
            signer = Signer.create(name)
            connection.execute("INSERT INTO signing_key VALUES (%s, %s)", (name, signer.private_text))
        for key, value in (("origin", name), ("key", signer.verifier_key)):
            connection.execute("INSERT INTO meta VALUES (%s, %s)", (key, value))
        return signer
    if signer is None:
        signer = stored_signer(connection, meta["origin"])
    if signer.verifier_key != meta["key"]:
        raise JournalError(f"the journal is signed with another key ({meta['key']!r}); give that one")
    return signer


def read_meta(connection: psycopg.Connection) -> dict[str, str]:
    return {str(key): str(value) for key, value in connection.execute("SELECT key, value FROM meta").fetchall()}


def stored_signer(connection: psycopg.Connection, origin: str) -> Signer:
    """The key in the database.

    Raises:
        JournalError: It is not there, or this user may not read it.
    """
    try:
        row = connection.execute("SELECT secret FROM signing_key WHERE name = %s", (origin,)).fetchone()
    except load_psycopg().errors.InsufficientPrivilege as error:
        raise JournalError("this user of the database may not read the key of the journal") from error
    if row is None:
        raise JournalError("the key that signs this journal is not in its database; give a signer")
    return Signer.from_private_text(str(row[0]), "the key in the state", origin)
