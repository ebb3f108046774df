"""What the replicas of a node must agree on before anything else, in the shared state: the first one says it for all.

It holds the key that they sign with, unless each has it in a file of its own; then it holds the public half alone.
Whoever reads the key there can sign as the node, as whoever reads the files of a node on one machine can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from handrail.state.database import StateDatabase
from handrail.state.schema import Migration, StoreSchema

if TYPE_CHECKING:
    import psycopg

SCHEMA = StoreSchema(
    "keys", (Migration("0.1.0", "CREATE TABLE node_key (name TEXT PRIMARY KEY, value TEXT NOT NULL)"),)
)


def shared_key(database: StateDatabase, name: str, make: Callable[[], str]) -> str:
    """What is kept under this name. If nothing is, it is made; of replicas that do so at once, one wins.

    Raises:
        StateError: The state cannot be used.
    """
    if (known := known_key(database, name)) is not None:
        return known
    made = make()

    def work(connection: psycopg.Connection) -> str:
        connection.execute("INSERT INTO node_key VALUES (%s, %s) ON CONFLICT DO NOTHING", (name, made))
        found = _found(connection, name)
        assert found is not None
        return found

    return database.write_now(work, serializable=False)


def known_key(database: StateDatabase, name: str) -> str | None:
    """What is kept under this name, if anything is."""
    database.migrate(SCHEMA)
    return database.read_now(lambda connection: _found(connection, name))


def _found(connection: psycopg.Connection, name: str) -> str | None:
    row = connection.execute("SELECT value FROM node_key WHERE name = %s", (name,)).fetchone()
    return None if row is None else str(row[0])
