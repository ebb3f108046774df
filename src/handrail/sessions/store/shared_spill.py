"""Long outputs in the shared state of several replicas, so that a model reads on wherever its run is taken up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from handrail.core.errors import UsageError
from handrail.core.ids import NewId, new_id
from handrail.sessions.store.spill import KeptOutput, is_output_id
from handrail.state.schema import Migration, StoreSchema

if TYPE_CHECKING:
    import psycopg

    from handrail.state.database import StateDatabase

SCHEMA = StoreSchema(
    "outputs",
    (
        Migration(
            "0.1.0",
            """
            CREATE TABLE long_output (
                number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id TEXT NOT NULL UNIQUE, size BIGINT NOT NULL,
                data BYTEA NOT NULL
            )
            """,
        ),
        Migration("0.2.0", "ALTER TABLE long_output ADD COLUMN at TIMESTAMPTZ NOT NULL DEFAULT now()"),
    ),
)
_TRIM = """
DELETE FROM long_output WHERE number IN (
    SELECT number FROM (SELECT number, sum(size) OVER (ORDER BY number DESC) AS total FROM long_output) AS sums
    WHERE total > %s
) AND number < (SELECT max(number) FROM long_output)
"""


class SharedSpill:
    """A `Spill`. Keeps the newest outputs of all replicas up to so many bytes; the oldest go first."""

    def __init__(self, database: StateDatabase, most_bytes: int = 1_000_000_000, new_id: NewId = new_id) -> None:
        self._database = database
        self._most = most_bytes
        self._new_id = new_id
        database.migrate(SCHEMA)

    async def put(self, text: str) -> str:
        id, data = self._new_id("out"), text.encode("utf-8", "surrogatepass")
        if not is_output_id(id):
            raise UsageError(f"id {id!r} cannot name a file; take A-Z a-z 0-9 _ - only")

        def work(connection: psycopg.Connection) -> None:
            connection.execute(
                "INSERT INTO long_output (id, size, data) VALUES (%s, %s, %s)"
                " ON CONFLICT (id) DO UPDATE SET size = excluded.size, data = excluded.data",
                (id, len(data), data),
            )
            connection.execute(_TRIM, (self._most,))

        await self._database.write(work, serializable=False)
        return id

    async def read(self, id: str, start: int, length: int) -> tuple[str, int]:
        if not is_output_id(id):
            raise KeyError(id)
        asked = "SELECT data FROM long_output WHERE id = %s"
        row = await self._database.read(lambda connection: connection.execute(asked, (id,)).fetchone())
        if row is None:
            raise KeyError(id)
        text = bytes(row[0]).decode("utf-8", "surrogatepass")
        return text[start : start + length], len(text)

    async def known(self) -> list[KeptOutput]:
        asked = "SELECT id, (extract(epoch FROM at) * 1000)::bigint, size FROM long_output ORDER BY number"
        rows = await self._database.read(lambda connection: connection.execute(asked).fetchall())
        return [KeptOutput(*row) for row in rows]

    async def delete(self, ids: Iterable[str]) -> int:
        asked, values = "DELETE FROM long_output WHERE id = ANY(%s)", ([*ids],)
        return await self._database.write(
            lambda connection: connection.execute(asked, values).rowcount, serializable=False
        )
