"""The shared state of several replicas of a node, in one PostgreSQL database.

A store opens the database by its URL, brings its tables up to date once, and then works in transactions:

    database = StateDatabase.open(url)      # one for all stores of a process
    database.migrate(StoreSchema("tokens", (Migration("0.2.0", "CREATE TABLE token (…)"),)))
    found = await database.read(lambda connection: connection.execute("SELECT …").fetchall())
    await database.write(lambda connection: connection.execute("INSERT …"))

`read_now` and `write_now` are the same for code that may block. Work is a function of a psycopg connection. It runs in
a thread of the database, in one transaction, which is kept whole or not at all; where another transaction was in its
way it runs again, so it must do nothing but read and write this database. `write` is serializable: nobody else writes
between what the work reads and what it writes. All tables are in the schema `handrail`, which is the path of every
connection.

`database.topics` tells this process of what others committed: `announce(connection, topic, text)` in a transaction is
told to every `topics.subscribe(topic, heard)` of every replica, when the transaction is committed.

What can go wrong is a `StateError`. `StateUnavailable` is that of a server that is gone: requests fail at once until it
is back, and then go on by themselves. Names are loaded when they are first used; psycopg is the extra `postgres`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.state.database import StateDatabase as StateDatabase
    from handrail.state.schema import Migration as Migration, StoreSchema as StoreSchema
    from handrail.state.topics import Topics as Topics, announce as announce
    from handrail.state.url import StateUrl as StateUrl

export_lazily(
    __name__,
    {
        "handrail.state.database": "StateDatabase",
        "handrail.state.schema": "Migration StoreSchema",
        "handrail.state.topics": "Topics announce",
        "handrail.state.url": "StateUrl",
    },
)
