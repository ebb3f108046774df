"""The database of a shared state, on a real server: transactions, tables, news, and a server that goes away."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from handrail.core.errors import BusError, MissingExtra, StateError, StateUnavailable
from handrail.node.tokens.token_store import TokenStore
from handrail.state import Migration, StateDatabase, StateUrl, StoreSchema, announce, connections
from tests.network import free_port
from tests.polling import blocking_until, until
from tests.postgres import PostgresServer, private_server

NOTES = StoreSchema("notes", (Migration("0.1.0", "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)"),))
LATER = StoreSchema("notes", (*NOTES.migrations, Migration("7.1.0", "ALTER TABLE note ADD COLUMN by TEXT; SELECT 1")))


@pytest.fixture
def database(postgres_url: str) -> Any:
    found = StateDatabase.open(postgres_url, connections=4)
    found.migrate(NOTES)
    yield found
    found.close()


def texts(database: StateDatabase) -> list[str]:
    return database.read_now(lambda c: [text for (text,) in c.execute("SELECT text FROM note ORDER BY id")])


async def test_work_is_kept_whole_or_not_at_all(database: StateDatabase) -> None:
    def fail(connection: Any) -> None:
        connection.execute("INSERT INTO note VALUES (2, 'lost')")
        raise ValueError("half way")

    await database.write(lambda c: c.execute("INSERT INTO note VALUES (1, 'kept')"))
    with pytest.raises(ValueError, match="half way"):
        await database.write(fail)

    assert await database.read(lambda c: c.execute("SELECT * FROM note").fetchall()) == [(1, "kept")]


def test_work_that_only_reads_can_write_nothing(database: StateDatabase) -> None:
    with pytest.raises(StateError):
        database.read_now(lambda c: c.execute("INSERT INTO note VALUES (1, 'x')"))

    assert texts(database) == []


def test_work_that_goes_on_after_a_failed_statement_is_not_called_written(database: StateDatabase) -> None:
    def work(connection: Any) -> None:
        connection.execute("INSERT INTO note VALUES (1, 'x')")
        with contextlib.suppress(Exception):
            connection.execute("INSERT INTO note VALUES (1, 'again')")

    with pytest.raises(StateError, match="nothing was written"):
        database.write_now(work)
    assert texts(database) == []


def test_nobody_writes_between_what_others_read_and_write(database: StateDatabase) -> None:
    def count_up(connection: Any) -> None:
        ((last,),) = connection.execute("SELECT coalesce(max(id), 0) FROM note").fetchall()
        connection.execute("INSERT INTO note VALUES (%s, 'x')", (last + 1,))

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(lambda: database.write_now(count_up)) for _ in range(40)]:
            done.result()

    assert database.read_now(lambda c: c.execute("SELECT count(*), max(id) FROM note").fetchone()) == (40, 40)


def test_steps_of_tables_are_taken_once_by_whoever_comes_first(postgres_url: str) -> None:
    opened = [StateDatabase.open(postgres_url) for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        taken = list(threads.map(lambda database: database.migrate(LATER), opened))

    assert sorted(taken) == [0, 0, 2]
    for each in opened:
        each.close()


def test_tables_of_a_later_handrail_are_refused_with_the_one_that_reads_them(
    postgres_url: str, database: StateDatabase
) -> None:
    assert database.migrate(LATER) == 1

    with pytest.raises(StateError, match=r"'notes' in version 2, and this handrail reads 1; use handrail 7\.1\.0"):
        database.migrate(NOTES)


def test_a_step_that_fails_leaves_the_tables_as_they_were(database: StateDatabase) -> None:
    broken = StoreSchema(
        "notes", (*NOTES.migrations, Migration("7.1.0", "DROP TABLE note; SELECT nothing FROM nowhere"))
    )
    with pytest.raises(StateError, match="nowhere"):
        database.migrate(broken)

    assert texts(database) == []
    assert database.migrate(NOTES) == 0


async def test_what_is_announced_is_heard_by_others_once_it_is_committed(
    postgres_url: str, database: StateDatabase
) -> None:
    other = StateDatabase.open(postgres_url)
    heard: list[str | None] = []
    leave = other.topics.subscribe("notes", heard.append)
    await until(lambda: heard == [None])

    def work(connection: Any) -> None:
        connection.execute("INSERT INTO note VALUES (1, 'x')")
        announce(connection, "notes", "1\n✓")
        announce(connection, "others", "2")

    await database.write(work)
    await until(lambda: heard == [None, "1\n✓"])
    leave()
    other.close()


def test_an_announcement_that_is_too_long_is_refused(database: StateDatabase) -> None:
    with pytest.raises(StateError, match="longer than"):
        database.write_now(lambda c: announce(c, "notes", "x" * 8000))


def test_a_server_that_is_restarted_is_used_again_without_an_error(postgres_url: str) -> None:
    with private_server() as server:
        database = StateDatabase.open(server.url())
        database.migrate(NOTES)
        heard: list[str | None] = []
        database.topics.subscribe("notes", heard.append)
        assert blocking_until(lambda: heard == [None])
        server.restart()
        database.write_now(lambda c: c.execute("INSERT INTO note VALUES (1, 'kept')"))

        assert texts(database) == ["kept"]
        assert blocking_until(lambda: heard == [None, None])
        database.close()


def test_a_server_that_is_gone_is_told_at_once_with_what_to_do_and_found_again() -> None:
    with private_server() as server:
        database = StateDatabase.open(server.url())
        database.migrate(NOTES)
        server.kill()
        with pytest.raises(StateUnavailable, match="check that PostgreSQL runs there") as raised:
            texts(database)
        before = time.monotonic()
        for _ in range(50):
            with pytest.raises(StateUnavailable):
                texts(database)
        assert time.monotonic() - before < 20  # not one time limit each
        assert server.password not in str(raised.value)
        assert not raised.value.may_be_written

        server.start()
        assert blocking_until(lambda: _works(database))
        database.close()


def _works(database: StateDatabase) -> bool:
    try:
        return texts(database) == []
    except StateUnavailable:
        return False


def test_a_server_that_ends_the_connection_in_a_transaction_has_written_nothing(
    postgres_server: PostgresServer, database: StateDatabase
) -> None:
    tries = 0

    def work(connection: Any) -> None:
        nonlocal tries
        tries += 1
        connection.execute("INSERT INTO note VALUES (1, 'x')")
        if tries == 1:
            postgres_server.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        connection.execute("INSERT INTO note VALUES (2, 'y')")

    database.write_now(work)

    assert (tries, texts(database)) == (2, ["x", "y"])


def test_a_connection_that_is_lost_in_the_commit_leaves_open_whether_it_is_written(
    postgres_server: PostgresServer, database: StateDatabase
) -> None:
    def work(connection: Any) -> None:
        connection.execute("INSERT INTO note VALUES (1, 'x')")
        postgres_server.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid})")

    with pytest.raises(StateUnavailable, match="may be there") as raised:
        database.write_now(work)

    assert raised.value.may_be_written
    assert texts(database) == []


def test_more_work_than_there_are_connections_waits_and_never_hangs(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = StateDatabase.open(postgres_url, connections=1)
    database.pool._patience = 0.05
    go_on = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        long = threads.submit(lambda: database.read_now(lambda c: go_on.wait()))
        assert blocking_until(lambda: database.pool._free._value == 0)
        with pytest.raises(StateUnavailable, match="all 1 connections"):
            texts(database)
        go_on.set()
        long.result()
    database.close()


@pytest.mark.parametrize("change", ["password", "database", "port"])
def test_what_cannot_be_reached_is_told_without_the_password(postgres_server: PostgresServer, change: str) -> None:
    url = {
        "password": postgres_server.url().replace(postgres_server.password, "a-wrong-password"),
        "database": postgres_server.url("nothing_like_it"),
        "port": postgres_server.url(port=free_port()),
    }[change]

    with pytest.raises(StateUnavailable) as raised:
        StateDatabase.open(url)

    assert "a-wrong-password" not in str(raised.value) and postgres_server.password not in str(raised.value)
    assert {"password": "password", "database": "nothing_like_it", "port": "refused"}[change] in str(raised.value)


async def test_a_database_that_is_closed_says_so(postgres_url: str) -> None:
    database = StateDatabase.open(postgres_url)
    database.close()
    database.close()

    with pytest.raises((StateError, RuntimeError)):
        await database.read(lambda c: None)
    with pytest.raises(StateError, match="closed"):
        database.read_now(lambda c: None)


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)

    with pytest.raises(MissingExtra, match="postgres"):
        StateDatabase.open("postgresql://db/x")


async def test_reads_of_many_tasks_share_the_connections(database: StateDatabase) -> None:
    found = await asyncio.gather(*(database.read(lambda c: c.info.backend_pid) for _ in range(50)))

    assert len(set(found)) <= database.pool.most
    assert connections.OLDEST_SERVER == 150_000
    assert isinstance(database.url, StateUrl)


def test_callers_of_a_store_that_cannot_be_reached_are_told_to_ask_again_and_not_where_it_is(
    postgres_server: PostgresServer, database: StateDatabase
) -> None:
    store = TokenStore(database)
    name = database.url.name
    postgres_server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    postgres_server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")

    with pytest.raises(BusError) as told:
        store.calls("some")

    assert (told.value.code, told.value.outcome, told.value.retry_after_ms) == ("partition", "failed", 1000)
    assert str(postgres_server.port) not in str(told.value.to_dict())
