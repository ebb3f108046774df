"""Durable appends to the journal in PostgreSQL, beside bare synchronous inserts with as many connections, in one run.

A server of its own, with fsync. The aim: 60 % of bare inserts, for one caller and for 32. And what 1, 2 and 3 replicas
with 8 callers each append together.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg

from handrail.journal.postgres_journal import PostgresJournal
from tests.journal.event_samples import settled
from tests.postgres import private_server

_SECONDS = 3.0
_ROUNDS = 3
_AIM = 0.6
_TABLE = "CREATE TABLE IF NOT EXISTS bare (id BIGSERIAL PRIMARY KEY, data BYTEA)"


def bare_inserts(url: str, connections: int) -> float:
    """Rows per second, each a commit of its own, of the size of an entry."""
    counts = [0] * connections
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLE)
    end = time.monotonic() + _SECONDS

    def insert(number: int) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while time.monotonic() < end:
                connection.execute("INSERT INTO bare (data) VALUES (%b)", (b"x" * 400,))
                counts[number] += 1

    threads = [threading.Thread(target=insert, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / _SECONDS


async def appends(url: str, callers: int, name: str = "run") -> float:
    """Durable appends per second, of one process with so many callers."""
    count = 0
    async with await PostgresJournal.open(url) as journal:
        end = time.monotonic() + _SECONDS

        async def append(run: str) -> None:
            nonlocal count
            while time.monotonic() < end:
                await journal.append(settled(count, run), durable=True)
                count += 1

        await asyncio.gather(*(append(f"{name}-{number}") for number in range(callers)))
    return count / _SECONDS


async def together(url: str, replicas: int) -> float:
    return sum(await asyncio.gather(*(appends(url, 8, f"replica-{number}") for number in range(replicas))))


def main() -> None:
    with private_server(durable=True) as server:
        url, missed = server.url(), False
        for callers in (1, 32):
            rounds = [(asyncio.run(appends(url, callers)), bare_inserts(url, callers)) for _ in range(_ROUNDS)]
            share = statistics.median(ours / bare for ours, bare in rounds)
            ours, bare = (statistics.median(each) for each in zip(*rounds, strict=True))
            print(
                f"{callers:2} callers: {ours:6.0f} appends/s, {bare:6.0f} bare inserts/s, {share:.0%}", file=sys.stderr
            )
            missed |= share < _AIM
        for replicas in (1, 2, 3):
            print(
                f"{replicas} replicas: {asyncio.run(together(url, replicas)):6.0f} appends/s together", file=sys.stderr
            )
    sys.exit(f"short of {_AIM:.0%} of bare inserts" if missed else 0)


if __name__ == "__main__":
    main()
