"""Connections to the PostgreSQL server of a state: made when they are needed, kept, and thrown away when it is gone.

While the server cannot be reached, requests fail at once: it is tried again only after a moment.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING

from handrail.core.errors import MissingExtra, StateError, StateUnavailable
from handrail.core.redact import redact_text
from handrail.state.url import StateUrl

if TYPE_CHECKING:
    import psycopg

OLDEST_SERVER = 150_000
"""PostgreSQL 15, as the server gives its version."""
SCHEMA = "handrail"
_CONNECT_SECONDS = 4
_SILENT_MS = 10_000
"""How long a server may leave what we sent unacknowledged before it counts as gone."""
_STATEMENT_MS = 30_000
_LOCK_MS = 10_000
_IDLE_MS = 5_000
"""How long a transaction waits for its client. One that was stopped, with SIGSTOP or by a cut cable, must not keep
locks that other replicas wait for."""
_SET = "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS setting (name, value)"
_DURABLE = """
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""
"""What is acknowledged is on the disk of the server, whatever the server, the database or the user is set to. What the
operator chose to have on the disks of standbys too stays."""
_QUIET = 0.5
"""Seconds after a connection could not be made in which none is tried."""

_LOST = ("08", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04")
"""Beginnings of the codes with which a server ends a connection, or takes none."""
_NO_ROOM = ("53100", "53200", "53400")
_BUSY = ("57014", "55P03")
RUN_AGAIN = ("40001", "40P01")
"""The codes of a transaction that another one was in the way of."""


def load_psycopg() -> ModuleType:
    """The module psycopg.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        import psycopg
    except ImportError as error:  # also where libpq is missing
        raise MissingExtra("a state in PostgreSQL", "postgres") from error
    return psycopg


def connect(url: StateUrl, **settings: str) -> psycopg.Connection:
    """A new connection, without a transaction; `settings` are of its session, beside ours.

    Raises:
        MissingExtra: psycopg is not installed.
        StateUnavailable: The server cannot be reached, or does not take us.
        StateError: It is too old.
    """
    module = load_psycopg()
    session = {
        "search_path": SCHEMA,
        "statement_timeout": str(_STATEMENT_MS),
        "lock_timeout": str(_LOCK_MS),
        "idle_in_transaction_session_timeout": str(_IDLE_MS),
        **settings,
    }
    try:
        connection: psycopg.Connection = module.connect(
            url.dsn,
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            application_name="handrail",
            # After a failover the address may lead to a server that can only be read.
            target_session_attrs="read-write",
            keepalives_idle=10,
            keepalives_interval=3,
            keepalives_count=3,
            tcp_user_timeout=_SILENT_MS,
        )
    except module.Error as error:
        raise StateUnavailable(
            f"the state at {url} cannot be used: {_reason(error)}; check that PostgreSQL runs there and that address,"
            " user, password and database are right; nothing is lost, and the next request tries again"
        ) from error
    if connection.info.server_version < OLDEST_SERVER:
        version = connection.info.server_version // 10_000
        connection.close()
        raise StateError(f"the state at {url} is on PostgreSQL {version}, and handrail needs 15 or later")
    if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
        connection.close()
        raise StateError(
            f"the database at {url} has the encoding {encoding}, which cannot hold every text; make it anew with:"
            " CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )
    try:  # not when connecting: PgBouncer refuses settings that come with that
        connection.execute(_SET, (list(session), list(session.values())))
        connection.execute(_DURABLE)
    except module.Error as error:
        connection.close()
        raise explain(url, error, connection, committing=False) from error
    return connection


def cut(connection: psycopg.Connection) -> None:
    """End whatever waits for its server, in whichever thread. Who uses the connection finds it lost."""
    with suppress(OSError, load_psycopg().Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


def explain(url: StateUrl, error: psycopg.Error, connection: psycopg.Connection, *, committing: bool) -> StateError:
    """The error as ours, with what to do. `committing` is whether what was written may be there all the same."""
    code = error.sqlstate or ""
    if connection.broken or connection.closed or code.startswith(_LOST):
        what = "; what was being written may be there" if committing else "; nothing was written"
        return StateUnavailable(
            f"the connection to the state at {url} was lost ({_reason(error)}){what}; see that PostgreSQL runs there:"
            " the next request connects again",
            may_be_written=committing,
        )
    if code in _BUSY:
        return StateUnavailable(
            f"the state at {url} took too long ({_reason(error)}), and nothing was written; look for long transactions"
            " in pg_stat_activity"
        )
    if code == "25006":
        return StateUnavailable(
            f"the state at {url} can only be read, as a standby; write the address of the primary, or of all servers"
        )
    if code in _NO_ROOM:
        return StateError(f"the state at {url} has no room ({_reason(error)}); give its server some")
    if code == "42501":
        return StateError(
            f"the state at {url} does not allow that ({_reason(error)}); make the user the owner of the database, or"
            f" of its schema {SCHEMA!r}"
        )
    return StateError(f"the state at {url} failed: {_reason(error)}")


def _reason(error: psycopg.Error) -> str:
    said = (error.diag.message_primary if error.diag is not None else None) or str(error)
    lines = [line.strip() for line in said.strip().splitlines() if line.strip()]
    return redact_text("; ".join(lines)) or type(error).__name__


class ConnectionPool:
    """The connections of one process to a state, at most so many at once. Any thread may use one."""

    def __init__(self, url: StateUrl, most: int, patience: float = 10.0) -> None:
        self.url = url
        self.most = most
        self._patience = patience
        self._free = threading.Semaphore(most)
        self._idle: list[psycopg.Connection] = []
        self._used: set[psycopg.Connection] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._gone: tuple[float, StateUnavailable] | None = None

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        """A connection that nobody else uses until the block ends.

        Raises:
            StateUnavailable: None can be made, or all are in use for too long.
        """
        if not self._free.acquire(timeout=self._patience):
            raise StateUnavailable(
                f"all {self.most} connections to the state at {self.url} are in use; look for long transactions in"
                " pg_stat_activity, or give the process more connections"
            )
        try:
            connection = self._take()
            self._used.add(connection)
            try:
                yield connection
            finally:
                self._used.discard(connection)
                self._give_back(connection)
        finally:
            self._free.release()

    def connect(self) -> psycopg.Connection:
        """A new one, or the error of the last attempt if that was a moment ago."""
        if (gone := self._gone) is not None and time.monotonic() < gone[0]:
            raise StateUnavailable(str(gone[1])) from gone[1]
        try:
            connection = connect(self.url)
        except StateUnavailable as error:
            self._gone = time.monotonic() + _QUIET, error
            raise
        self._gone = None
        return connection

    def forget_idle(self) -> None:
        """Throw away those that nobody uses: the server was restarted."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Closes the connections; those in use are closed when they are given back."""
        with self._lock:
            self._closed = True
        self.forget_idle()

    def cut(self) -> None:
        """Close it, and end what waits for the server: the process ends, and the server does not answer."""
        self.close()
        for connection in list(self._used):
            cut(connection)

    def _take(self) -> psycopg.Connection:
        if self._closed:
            raise StateError(f"the state at {self.url} was closed here")
        with suppress(IndexError), self._lock:
            return self._idle.pop()
        return self.connect()

    def _give_back(self, connection: psycopg.Connection) -> None:
        if connection.closed or connection.broken:
            return
        with self._lock:
            # Of one with a transaction, it could not be ended.
            if keep := not self._closed and connection.info.transaction_status == 0:
                self._idle.append(connection)
        if not keep:
            connection.close()
