"""SQLite databases by name: `sqlite_query`, `sqlite_schema`, and `sqlite_execute` where it is allowed.

A query runs on a connection that is opened for reading, under an authorizer that
lets it do nothing but read, with a limit on time, rows and bytes. A change is one
statement in one transaction: it happens whole, or not at all.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from handrail.core.errors import ToolError
from handrail.standard.io.settings import IoLimits, IoSettings
from handrail.tools.tool import Tool, tool

Scalar = str | int | float | bool | None
Parameters = list[Scalar] | dict[str, Scalar]
Monotonic = Callable[[], float]

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
"""What reaches out of the database, where a build of SQLite has it; and what takes seconds in a single step, so that
no limit of time stops it: `printf('%.*c', 1000000000, 'x')`."""
_STEPS = 1_000
"""Of SQLite's machine between two looks at the clock."""
_SQL = 100_000
_FULL = 64


def sqlite_tools(settings: IoSettings, clock: Monotonic = time.monotonic) -> list[Tool]:
    databases = Databases(settings, clock)
    tools = [_query(databases), _schema(databases)]
    return [*tools, _execute(databases)] if settings.write_databases else tools


def _resource(arguments: Mapping[str, Any]) -> tuple[str, str]:
    return ("sqlite", str(arguments["database"]))


def _query(databases: Databases) -> Tool:
    @tool(resource=_resource)
    def sqlite_query(database: str, sql: str, parameters: Parameters | None = None) -> dict[str, Any]:
        """Read from an SQLite database with one SELECT. Gives columns and rows, and a note if there were more.

        Args:
            database: Its name; sqlite_schema lists them.
            sql: One statement. Write ? or :name for values, and give them as parameters.
            parameters: The values for ?, in order, or for :name, by name.
        """
        return databases.query(database, sql, parameters)

    return sqlite_query


def _execute(databases: Databases) -> Tool:
    @tool(side_effects=True, resource=_resource)
    def sqlite_execute(database: str, sql: str, parameters: Parameters | None = None) -> dict[str, Any]:
        """Change an SQLite database with one statement. It happens whole, or not at all.

        Args:
            database: Its name; sqlite_schema lists them.
            sql: One statement. Write ? or :name for values, and give them as parameters.
            parameters: The values for ?, in order, or for :name, by name.
        """
        return databases.execute(database, sql, parameters)

    return sqlite_execute


def _schema(databases: Databases) -> Tool:
    @tool(resource=lambda arguments: ("sqlite", arguments["database"]) if arguments.get("database") else None)
    def sqlite_schema(database: str | None = None) -> dict[str, Any]:
        """List the databases, or the tables and views of one of them with the SQL that made them.

        Args:
            database: Its name; without one, all databases are listed.
        """
        return databases.names() if database is None else databases.schema(database)

    return sqlite_schema


class Databases:
    """Opens a connection for each call: none is shared, so none keeps anything."""

    def __init__(self, settings: IoSettings, clock: Monotonic) -> None:
        self._paths = settings.databases
        self._writable = settings.write_databases
        self._limits = settings.limits
        self._clock = clock

    def names(self) -> dict[str, Any]:
        return {"databases": [{"name": name, "writable": name in self._writable} for name in self._paths]}

    def query(self, database: str, sql: str, parameters: Parameters | None) -> dict[str, Any]:
        with self._connected(database, write=False) as connection:
            connection.set_authorizer(_only_reads)
            return _answer(connection.execute(sql, parameters or ()), self._limits)

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
            connection.execute("COMMIT")
            return {"changed": max(cursor.rowcount, 0), **answer}

    def schema(self, database: str) -> dict[str, Any]:
        with self._connected(database, write=False) as connection:
            found = connection.execute(
                "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name LIMIT ?",
                (self._limits.rows,),
            )
            return {"database": database, "tables": [{"name": n, "kind": k, "sql": s} for k, n, s in found]}

    @contextmanager
    def _connected(self, database: str, *, write: bool) -> Iterator[sqlite3.Connection]:
        path = self._paths.get(database)
        if path is None:
            raise ToolError("not_found", f"there is no database {database!r}; there are {', '.join(self._paths)}")
        ends = self._clock() + self._limits.query_seconds
        try:
            with closing(_opened(path, write=write)) as connection:
                _limited(connection, self._limits)
                connection.set_progress_handler(lambda: int(self._clock() > ends), _STEPS)
                yield connection
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            late = self._clock() > ends
            raise _told(error, database, self._limits.query_seconds if late else None, write=write) from error


def _opened(path: Path, *, write: bool) -> sqlite3.Connection:
    # The path is the owner's word, in a URI only so that the file is never made.
    uri = f"file:{quote(str(path))}?mode={'rw' if write else 'ro'}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0, cached_statements=0)
    connection.text_factory = _decoded
    try:
        connection.execute("PRAGMA trusted_schema = OFF")  # a view of a stranger's file calls no function of ours
        if not write:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _limited(connection: sqlite3.Connection, limits: IoLimits) -> None:
    for limit, most in (
        (sqlite3.SQLITE_LIMIT_LENGTH, max(limits.file, _SQL)),
        (sqlite3.SQLITE_LIMIT_SQL_LENGTH, _SQL),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
        (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
        (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
    ):
        connection.setlimit(limit, most)


def _only_reads(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action not in _READS or (action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _no_way_out(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action in _NEVER or (action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _answer(cursor: sqlite3.Cursor, limits: IoLimits) -> dict[str, Any]:
    columns = [column[0] for column in cursor.description or ()]
    rows: list[list[Any]] = []
    size = 0
    note = None
    for row in cursor:
        shown = [_shown(value) for value in row]
        size += sum(len(value) if isinstance(value, str) else 8 for value in shown)
        if len(rows) == limits.rows or (size > limits.row_bytes and rows):
            note = f"there are more rows than these {len(rows):,}; ask for fewer columns, or use LIMIT and OFFSET"
            break
        rows.append(shown)
    return {"columns": columns, "rows": rows, **({"note": note} if note else {})}


def _shown(value: Any) -> Any:
    return f"(blob of {len(value):,} bytes, beginning {value[:_FULL].hex()})" if isinstance(value, bytes) else value


def _told(error: Exception, database: str, seconds: float | None, *, write: bool) -> ToolError:
    words = str(error)
    if "not authorized" in words or "prohibited" in words or "readonly" in words:
        allowed = "ATTACH, PRAGMA and transactions are not allowed" if write else "only SELECT is allowed here"
        return ToolError("not_allowed", f"{words}; {allowed}")
    if "interrupted" in words and seconds is not None:
        return ToolError(
            "too_slow", f"the statement took longer than {seconds:g} s and was given up; nothing was changed"
        )
    if isinstance(error, sqlite3.OperationalError) and "unable to open" in words:
        return ToolError("not_found", f"database {database!r} cannot be opened: {words}")
    return ToolError("sql", f"{words}; sqlite_schema shows the tables of {database!r}")
