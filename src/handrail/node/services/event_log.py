"""What was said, in order: the events of a node, numbered by a Lamport clock, each kept once.

An event never changes. What its author sends again under the same client id is the
same event; something else under that id is refused. The number is one above all that
this node has made or heard of, whichever process asks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from handrail.core.errors import BusError
from handrail.core.ids import NewId, new_id
from handrail.core.ports import Clock, SystemClock
from handrail.node.bus.request import OWN, Caller
from handrail.state.schema import Migration
from handrail.state.sql import Place, SqlConnection, StoreTables, open_tables

if TYPE_CHECKING:
    from handrail.state.database import StateDatabase

_KEPT_AFTER = 7 * 86_400_000
"""An event that ended is still known that long, so that its client id is not taken for a new one."""

_FURTHEST = 2**32
"""How far the clock of another node may be ahead of ours. Without a limit, any node could bring our clock to its
end."""

TABLES = StoreTables(
    "events",
    sqlite=(
        Migration(
            "0.1.0",
            """
            CREATE TABLE clock (lamport INTEGER NOT NULL);
            CREATE TABLE event (
                lamport INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, author TEXT NOT NULL,
                client_id TEXT NOT NULL, digest TEXT NOT NULL, content TEXT NOT NULL, created INTEGER NOT NULL,
                expires INTEGER, recipient TEXT, state TEXT NOT NULL DEFAULT '', changed INTEGER,
                UNIQUE (kind, author, client_id)
            );
            CREATE INDEX event_recipient ON event (recipient, lamport)
            """,
        ),
        Migration("0.1.0", "ALTER TABLE clock RENAME TO event_clock; DROP TABLE IF EXISTS kind"),
    ),
    postgres=(
        Migration(
            "0.1.0",
            """
            CREATE TABLE event_clock (lamport BIGINT NOT NULL);
            CREATE TABLE event (
                lamport BIGINT PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, author TEXT NOT NULL,
                client_id TEXT NOT NULL, digest TEXT NOT NULL, content TEXT NOT NULL, created BIGINT NOT NULL,
                expires BIGINT, recipient TEXT, state TEXT NOT NULL DEFAULT '', changed BIGINT,
                UNIQUE (kind, author, client_id)
            );
            CREATE INDEX event_recipient ON event (recipient, lamport);
            CREATE INDEX event_expiry ON event (expires)
            """,
        ),
    ),
)
_COLUMNS = "lamport, id, kind, author, content, created, expires, recipient, state, changed"


class LoggedEvent(NamedTuple):
    lamport: int
    id: str
    kind: str
    author: str
    content: dict[str, Any]
    created: int
    """Milliseconds since 1970, as all times here."""
    expires: int | None
    recipient: str | None
    state: str
    changed: int | None
    """The time at which it got its state."""


class EventDraft(NamedTuple):
    """An event before it has a number."""

    kind: str
    author: str
    client_id: str
    content: dict[str, Any]
    recipient: str | None = None
    lives_ms: int | None = None
    state: str = ""
    heard: int = 0
    """The number that it had elsewhere; ours is above it."""


class EventLog:
    """A file, the shared state of several replicas, or memory where no place is given. Several processes may use one
    file."""

    def __init__(
        self,
        place: StateDatabase | Place = None,
        *,
        most_per_author: int = 10_000,
        clock: Clock | None = None,
        new_id: NewId = new_id,
    ) -> None:
        self._database = open_tables(place, TABLES)
        self._most = most_per_author
        self._clock = clock or SystemClock()
        self._new_id = new_id

    async def add(self, draft: EventDraft) -> tuple[LoggedEvent, bool]:
        """The event, and whether it is new.

        Raises:
            BusError: The client id is another event's, or the number that it had elsewhere cannot be one
                (`bad_request`); its author has too many (`capacity_exceeded`).
        """
        now = self._clock.now()
        said = json.dumps([draft.content, draft.recipient, draft.lives_ms], sort_keys=True)
        digest = hashlib.sha256(said.encode()).hexdigest()

        def work(connection: SqlConnection) -> tuple[LoggedEvent, bool]:
            known = connection.execute(
                f"SELECT digest, {_COLUMNS} FROM event WHERE kind = ? AND author = ? AND client_id = ?",
                (draft.kind, draft.author, draft.client_id),
            ).fetchone()
            if known is not None and known[0] != digest:
                raise BusError("bad_request", "client_id was already used for something else; choose a new one")
            if known is not None:
                return _event(known[1:]), False
            self._check_room(connection, draft, now)
            return self._insert(connection, draft, digest, now), True

        return await self._database.write(work)

    async def find(
        self, where: str, values: Sequence[Any], *, newest: bool, limit: int
    ) -> tuple[list[LoggedEvent], bool]:
        """At most so many of the events that live, in order, and whether there are more. `where` is our own SQL."""
        order = "DESC" if newest else "ASC"
        now = self._clock.now()

        def work(connection: SqlConnection) -> list[LoggedEvent]:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM event WHERE (expires IS NULL OR expires > ?) AND {where} "
                f"ORDER BY lamport {order} LIMIT ?",
                (now, *values, limit + 1),
            )
            return [_event(row) for row in rows]

        found = await self._database.read(work)
        return sorted(found[:limit]), len(found) > limit

    async def latest(self, kind: str) -> int:
        """The highest number of this kind; 0 if there is none."""

        def work(connection: SqlConnection) -> int:
            (highest,) = connection.execute("SELECT max(lamport) FROM event WHERE kind = ?", (kind,)).fetchone()
            return highest or 0

        return await self._database.read(work)

    async def settle(self, id: str, state: str) -> None:
        """Say what became of an event."""
        now = self._clock.now()

        def work(connection: SqlConnection) -> None:
            connection.execute("UPDATE event SET state = ?, changed = ? WHERE id = ?", (state, now, id))

        await self._database.write(work)

    async def delete_all(self, author: str) -> int:
        """Remove what this author said, and what was said to them; how many events they were. Numbers are not used
        again."""
        return await self._database.write(
            lambda connection: (
                connection.execute("DELETE FROM event WHERE author = ? OR recipient = ?", (author, author)).rowcount
            )
        )

    async def delete_before(self, at: int, *, only_count: bool = False) -> int:
        """Remove events from before a moment, or only count them. Those stay that are queued for their recipient, that
        have an end which their author gave them and has not come, and that are so new that they may be sent again."""
        now = self._clock.now()
        before = min(at, now - _KEPT_AFTER)
        where = (
            "created < ? AND coalesce(changed, created) < ? AND state <> 'queued' AND (expires IS NULL OR expires < ?)"
        )
        values = (before, before, now - _KEPT_AFTER)
        if only_count:
            counted = f"SELECT count(*) FROM event WHERE {where}"
            return await self._database.read(lambda connection: int(connection.execute(counted, values).fetchone()[0]))
        return await self._database.write(
            lambda connection: connection.execute(f"DELETE FROM event WHERE {where}", values).rowcount
        )

    def close(self) -> None:
        self._database.close()

    def _check_room(self, connection: SqlConnection, draft: EventDraft, now: int) -> None:
        connection.execute("DELETE FROM event WHERE expires < ?", (now - _KEPT_AFTER,))
        (count,) = connection.execute(
            "SELECT count(*) FROM event WHERE kind = ? AND author = ?", (draft.kind, draft.author)
        ).fetchone()
        if count >= self._most and not _dropped(connection, draft, now):
            raise BusError(
                "capacity_exceeded", f"this node keeps at most {self._most} of your events, and that limit is reached"
            )

    def _insert(self, connection: SqlConnection, draft: EventDraft, digest: str, now: int) -> LoggedEvent:
        id, lamport = self._new_id("event"), _tick(connection, draft.heard)
        expires = None if draft.lives_ms is None else now + draft.lives_ms
        content = json.dumps(draft.content)
        connection.execute(
            "INSERT INTO event (lamport, id, kind, author, client_id, digest, content, created, expires, recipient, "
            "state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(lamport, id, draft.kind, draft.author, draft.client_id, digest, content, now),
                *(expires, draft.recipient, draft.state),
            ),
        )
        row = (lamport, id, draft.kind, draft.author, content, now, expires, draft.recipient, draft.state, None)
        return _event(row)


def author_name(caller: Caller, node_id: str) -> str:
    """The name under which a caller writes: its id, or the node's id for the program itself."""
    return node_id if caller.trust == OWN.trust and caller.id == OWN.id else caller.id


def wire_time(at: int) -> str:
    """A time as wires write it: RFC 3339, in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _tick(connection: SqlConnection, heard: int) -> int:
    known = connection.execute("SELECT lamport FROM event_clock").fetchone()
    if known is None:
        connection.execute("INSERT INTO event_clock VALUES (0)")
    ours = 0 if known is None else int(known[0])
    if heard > ours + _FURTHEST:
        raise BusError("bad_request", f"lamport {heard} is too far ahead of this node's, which is {ours}")
    lamport = max(ours, heard) + 1
    connection.execute("UPDATE event_clock SET lamport = ?", (lamport,))
    return lamport


def _dropped(connection: SqlConnection, draft: EventDraft, now: int) -> bool:
    """Make room for an event: the author's oldest goes that was settled so long ago that nobody sends it again."""
    oldest = (
        "SELECT min(lamport) FROM event WHERE kind = ? AND author = ? AND state NOT IN ('', 'queued') AND changed < ?"
    )
    values = (draft.kind, draft.author, now - _KEPT_AFTER)
    return connection.execute(f"DELETE FROM event WHERE lamport = ({oldest})", values).rowcount > 0


def _event(row: Sequence[Any]) -> LoggedEvent:
    lamport, id, kind, author, content, *rest = row
    return LoggedEvent(lamport, id, kind, author, json.loads(content), *rest)
