"""SQLite databases by name: `sqlite_query`, `sqlite_schema`, and `sqlite_execute` where it is allowed.

A query runs on a connection that is opened for reading, under an authorizer that
lets it do nothing but read, with a limit on time, rows and bytes. A change is one
statement in one transaction: it happens whole, or not at all. SQLite looks at the
clock between its steps; for a step that takes long by itself, as `instr` on a
megabyte can, statements run in a process that can be killed.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from handrail.core.errors import ToolError
from handrail.library.io.settings import IoSettings
from handrail.tools.tool import Tool, tool

Scalar = str | int | float | bool | None
Parameters = list[Scalar] | dict[str, Scalar]

_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_NEVER = frozenset(
    {
        sqlite3.SQLITE_ATTACH,
        sqlite3.SQLITE_DETACH,
        sqlite3.SQLITE_PRAGMA,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_SAVEPOINT,
    }
)
_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "edit", "readfile", "writefile", "printf", "format"})
"""What reaches out of the database, where a build of SQLite has it; and what takes seconds in a single step for no
good: `printf('%.*c', 1000000000, 'x')`."""
_STEPS = 1_000
"""The steps of SQLite's machine between two looks at the clock."""
_SQL = 100_000
_COLUMNS = 200
"""The most columns of one answer. With the limit on a value, this bounds the memory that a single step can take."""
_VALUE = 4
"""Times `row_bytes`: the largest value that a statement can make or read."""
_BLOB_SHOWN = 64
_TO_BE_KILLED = 2.0
"""Seconds beyond `query_seconds`, in which a process starts and SQLite gives a statement up by itself, if it can."""
_BUSY = 5.0
"""Seconds that somebody else who writes is waited for."""


class DatabaseSettings(Struct, frozen=True):
    """What the tools may open, as JSON that crosses to the process where they run."""

    databases: dict[str, str]
    writable: tuple[str, ...]
    rows: int
    row_bytes: int
    query_seconds: float

    @classmethod
    def of(cls, settings: IoSettings) -> DatabaseSettings:
        limits = settings.limits
        paths = {name: str(path) for name, path in settings.databases.items()}
        return cls(paths, settings.write_databases, limits.rows, limits.row_bytes, limits.query_seconds)


def sqlite_tools(settings: IoSettings) -> list[Tool]:
    """A statement runs in a process that is killed if SQLite cannot give the statement up by itself."""
    given = DatabaseSettings.of(settings)
    fixed = {"settings": msgspec.to_builtins(given)}
    resource = DatabaseResource(given).of
    runs: Any = {"resource": resource, "isolation": "process", "timeout": given.query_seconds + _TO_BE_KILLED}
    tools = [tool(partial(sqlite_query, **fixed), **runs), tool(partial(sqlite_schema, **fixed), resource=resource)]
    if settings.write_databases:
        tools.append(tool(partial(sqlite_execute, **fixed), side_effects=True, **runs))
    return tools


def sqlite_query(
    database: str, sql: str, parameters: Parameters | None = None, *, settings: dict[str, Any]
) -> dict[str, Any]:
    """Read from an SQLite database with one SELECT. Gives columns and rows, and a note if there were more.

    Args:
        database: Its name; sqlite_schema lists them.
        sql: One statement. Write ? or :name for values, and give them as parameters.
        parameters: The values for ?, in order, or for :name, by name.
    """
    return SqliteDatabases(msgspec.convert(settings, DatabaseSettings)).query(database, sql, parameters)


def sqlite_execute(
    database: str, sql: str, parameters: Parameters | None = None, *, settings: dict[str, Any]
) -> dict[str, Any]:
    """Change an SQLite database with one statement. It happens whole, or not at all.

    Args:
        database: Its name; sqlite_schema lists them.
        sql: One statement. Write ? or :name for values, and give them as parameters.
        parameters: The values for ?, in order, or for :name, by name.
    """
    return SqliteDatabases(msgspec.convert(settings, DatabaseSettings)).execute(database, sql, parameters)


def sqlite_schema(database: str | None = None, *, settings: dict[str, Any]) -> dict[str, Any]:
    """List the databases, or the tables and views of one of them with the SQL that made them.

    Args:
        database: Its name; without one, all databases are listed.
    """
    databases = SqliteDatabases(msgspec.convert(settings, DatabaseSettings))
    return databases.names() if database is None else databases.schema(database)


class DatabaseResource:
    """Names the file that a call reads or changes, whatever the database is called."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._files = {name: ("sqlite", os.path.realpath(path)) for name, path in settings.databases.items()}

    def of(self, arguments: Mapping[str, Any]) -> tuple[str, str] | None:
        return self._files.get(arguments.get("database") or "")


class SqliteDatabases:
    """Opens a connection for each call: none is shared, so none keeps anything."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._paths = settings.databases
        self._writable = settings.writable
        self._limits = settings

    def names(self) -> dict[str, Any]:
        return {"databases": [{"name": name, "writable": name in self._writable} for name in self._paths]}

    def query(self, database: str, sql: str, parameters: Parameters | None) -> dict[str, Any]:
        with self._connected(database, write=False) as connection:
            connection.set_authorizer(_only_reads)
            cursor = connection.execute(sql, parameters or ())
            if cursor.description is None:
                raise ToolError("sql", "there is no statement in it; write one SELECT")
            return _answer(cursor, self._limits)

    def execute(self, database: str, sql: str, parameters: Parameters | None) -> dict[str, Any]:
        if database not in self._writable and database in self._paths:
            can = ", ".join(self._writable)
            raise ToolError("read_only", f"database {database!r} may only be read; {can} may be changed")
        with self._connected(database, write=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.set_authorizer(_no_way_out)
            cursor = connection.execute(sql, parameters or ())
            answer = _answer(cursor, self._limits) if cursor.description else {}
            cursor.close()
            connection.set_authorizer(None)
            # The cursor's own count is missing where not all rows were read, and where the statement begins with WITH.
            (changed,) = connection.execute("SELECT changes()").fetchone()
            connection.execute("COMMIT")
            return {"changed": changed, **answer}

    def schema(self, database: str) -> dict[str, Any]:
        with self._connected(database, write=False) as connection:
            found = connection.execute(
                "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name LIMIT ?",
                (self._limits.rows + 1,),
            )
            tables = [{"name": name, "kind": kind, "sql": sql} for kind, name, sql in found]
        shown = tables[: self._limits.rows]
        cut = {"note": f"there are more tables than these {len(shown):,}"} if shown != tables else {}
        return {"database": database, "tables": shown, **cut}

    @contextmanager
    def _connected(self, database: str, *, write: bool) -> Iterator[sqlite3.Connection]:
        path = self._paths.get(database)
        if path is None:
            raise ToolError("not_found", f"there is no database {database!r}; there are {', '.join(self._paths)}")
        ends = time.monotonic() + self._limits.query_seconds
        try:
            with closing(_opened(path, self._limits.query_seconds, write=write)) as connection:
                _limited(connection, self._limits)
                connection.set_progress_handler(lambda: int(time.monotonic() > ends), _STEPS)
                yield connection
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            late = time.monotonic() > ends
            raise _tool_error(error, database, self._limits.query_seconds if late else None, write=write) from error


def _opened(path: str, seconds: float, *, write: bool) -> sqlite3.Connection:
    # The path is the owner's word, in a URI only so that the file is never made.
    uri = f"file:{quote(path)}?mode={'rw' if write else 'ro'}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=min(seconds, _BUSY), cached_statements=0)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    try:
        connection.execute("PRAGMA trusted_schema = OFF")  # a view of a stranger's file calls no function of ours
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 0")  # a wide table is read before columns are limited
        if not write:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _limited(connection: sqlite3.Connection, limits: DatabaseSettings) -> None:
    for limit, most in (
        (sqlite3.SQLITE_LIMIT_LENGTH, max(_VALUE * limits.row_bytes, _SQL)),
        (sqlite3.SQLITE_LIMIT_COLUMN, _COLUMNS),
        (sqlite3.SQLITE_LIMIT_SQL_LENGTH, _SQL),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
        (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
        (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
    ):
        connection.setlimit(limit, most)


def _only_reads(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    # What a table of a module (json_each, a full-text index) does to become known. Nothing else can come of it: the
    # schema cannot be updated, and the connection cannot write.
    declares = action == sqlite3.SQLITE_UPDATE and first == "sqlite_master"
    return _judged(action, first, second, allowed=action in _READS or declares)


def _no_way_out(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    return _judged(action, first, second, allowed=action not in _NEVER)


def _judged(action: int, first: str | None, second: str | None, *, allowed: bool) -> int:
    if action == sqlite3.SQLITE_PRAGMA and (first, second) == ("data_version", None):  # a full-text index asks for it
        allowed = True
    elif action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS:
        allowed = False
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _answer(cursor: sqlite3.Cursor, limits: DatabaseSettings) -> dict[str, Any]:
    columns = [column[0] for column in cursor.description or ()]
    rows: list[list[Any]] = []
    size = 0
    notes: list[str] = []
    for row in cursor:
        shown = [_as_json_value(value) for value in row]
        size += sum(len(value) if isinstance(value, str) else 8 for value in shown)
        if len(rows) == limits.rows or (size > limits.row_bytes and rows):
            notes.append(
                f"there are more rows than these {len(rows):,}; ask for fewer columns, or use LIMIT and OFFSET"
            )
            break
        if size > limits.row_bytes:  # the first one alone
            shown = [_cut(value, limits.row_bytes // len(shown)) for value in shown]
            notes.append("long values are cut at …; use substr() to read on")
        rows.append(shown)
    return {"columns": columns, "rows": rows, **({"note": "; ".join(notes)} if notes else {})}


def _cut(value: Any, most: int) -> Any:
    return f"{value[:most]}…" if isinstance(value, str) and len(value) > most else value


def _as_json_value(value: Any) -> Any:
    match value:
        case bytes():
            return f"(blob of {len(value):,} bytes, beginning {value[:_BLOB_SHOWN].hex()})"
        case float() if not math.isfinite(value):  # JSON has no word for it
            return str(value)
    return value


def _tool_error(error: Exception, database: str, seconds: float | None, *, write: bool) -> ToolError:
    words, number = str(error), getattr(error, "sqlite_errorcode", 0) & 0xFF
    if number in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ToolError("busy", f"database {database!r} is in use by somebody else; nothing was changed, try again")
    if number == sqlite3.SQLITE_TOOBIG or words.startswith("too many columns in result"):
        return ToolError("too_large", f"{words}; read fewer columns, or length() of a value")
    if number in (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY) or words.startswith("not authorized"):
        allowed = "ATTACH, PRAGMA and transactions are not allowed" if write else "only SELECT is allowed here"
        return ToolError("not_allowed", f"{words}; {allowed}")
    if number == sqlite3.SQLITE_INTERRUPT and seconds is not None:
        return ToolError(
            "too_slow", f"the statement took longer than {seconds:g} s and was given up; nothing was changed"
        )
    if number == sqlite3.SQLITE_CANTOPEN:
        return ToolError("not_found", f"database {database!r} cannot be opened: {words}")
    return ToolError("sql", f"{words}; sqlite_schema shows the tables of {database!r}")
