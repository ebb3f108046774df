"""The tables of a store in the shared state: numbered steps that only go forward.

The table `schema_version` says which step each store is at, and which handrail took the last one. The tables of a later
handrail are refused, with that version: an older one could misread them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from handrail.core.errors import StateError
from handrail.core.installation import PACKAGE
from handrail.state.connections import SCHEMA
from handrail.state.url import StateUrl

if TYPE_CHECKING:
    import psycopg

_LOCK = 7_276_548_021
"""The advisory lock of whoever changes tables; drawn once, and the same for all replicas."""
_PREPARE = f"""
CREATE SCHEMA IF NOT EXISTS {SCHEMA};
CREATE TABLE IF NOT EXISTS {SCHEMA}.schema_version (
    store TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    reads_with TEXT NOT NULL,
    changed TIMESTAMPTZ NOT NULL DEFAULT now()
)
"""
_THERE = "SELECT to_regclass(%s) IS NOT NULL"


class Migration(Struct, frozen=True):
    """One step of the tables of a store."""

    reads_with: str
    """The first handrail that reads the tables as this step leaves them, as `0.2.0`."""
    statements: str
    """SQL statements, with semicolons between them."""


class StoreSchema(Struct, frozen=True):
    """The tables of one store: the steps that made them, oldest first. A step that was released never changes."""

    store: str
    migrations: tuple[Migration, ...]

    @property
    def version(self) -> int:
        return len(self.migrations)


def find_version(connection: psycopg.Connection, store: str) -> tuple[int, str]:
    """The step at which the tables of a store are, and the handrail that reads them; step 0 if there are none."""
    if not connection.execute(_THERE, (f"{SCHEMA}.schema_version",)).fetchone()[0]:  # type: ignore[index]
        return 0, ""
    row = connection.execute("SELECT version, reads_with FROM schema_version WHERE store = %s", (store,)).fetchone()
    return (0, "") if row is None else (row[0], row[1])


def migrate(connection: psycopg.Connection, url: StateUrl, schema: StoreSchema) -> int:
    """Take the steps that are missing, in a transaction that is under way; how many they were.

    Raises:
        StateError: A later handrail made the tables, with the one that reads them.
    """
    if check_version(connection, url, schema) == schema.version:
        return 0
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    connection.execute(_PREPARE)
    found = check_version(connection, url, schema)  # somebody else may have taken them meanwhile
    for migration in schema.migrations[found:]:
        connection.execute(migration.statements)
    if found < schema.version:
        connection.execute(
            "INSERT INTO schema_version (store, version, reads_with) VALUES (%s, %s, %s) ON CONFLICT (store) DO UPDATE"
            " SET version = excluded.version, reads_with = excluded.reads_with, changed = now()",
            (schema.store, schema.version, schema.migrations[-1].reads_with),
        )
    return schema.version - found


def check_version(connection: psycopg.Connection, url: StateUrl, schema: StoreSchema) -> int:
    """The step at which the tables are.

    Raises:
        StateError: At one that this handrail does not know.
    """
    found, reads_with = find_version(connection, schema.store)
    if found > schema.version:
        raise StateError(
            f"the state at {url} has {schema.store!r} in version {found}, and this {PACKAGE} reads {schema.version};"
            f" use {PACKAGE} {reads_with} or later"
        )
    return found
