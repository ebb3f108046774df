"""Durable appends to the journal in PostgreSQL, beside bare synchronous inserts with as many connections, in one run.

A server of its own, with fsync. The aim: 60 % of bare inserts, for one caller and for 32. And what 1, 2 and 3 replicas,
each a process with 8 callers, make of calls with a side effect, beside one process whose journal is a file.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg

from handrail import Context, Executor, Policy, ToolCall, tool
from handrail.journal.journal import SqliteJournal
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


async def appends(url: str, callers: int) -> float:
    """Durable appends per second, of one process with so many callers."""
    count = 0
    async with await PostgresJournal.open(url) as journal:
        end = time.monotonic() + _SECONDS

        async def append(run: str) -> None:
            nonlocal count
            while time.monotonic() < end:
                await journal.append(settled(count, run), durable=True)
                count += 1

        await asyncio.gather(*(append(f"run-{number}") for number in range(callers)))
    return count / _SECONDS


@tool(side_effects=True)
async def pay(job: int) -> int:
    """Pay."""
    return job


async def replica(place: str, name: str) -> list[float]:
    """The milliseconds that each call took of 8 callers of one process, each call in a run of its own."""
    took: list[float] = []
    opened = PostgresJournal.open(place) if "://" in place else SqliteJournal.open(Path(place))
    policy = Policy(confirm_side_effects=False)
    async with await opened as journal, Executor([pay], journal=journal, policy=policy) as executor:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        end = time.monotonic() + _SECONDS

        async def call(lane: int) -> None:
            number = 0
            while (started := time.monotonic()) < end:
                context = Context(run=f"{name}-{lane}-{number}")
                await executor.invoke(ToolCall("call", "pay", {"job": number}), context)
                took.append(1000 * (time.monotonic() - started))
                await executor.finish(context.run)
                number += 1

        await asyncio.gather(*(call(lane) for lane in range(8)))
    return took


def calls(place: str, replicas: int, number: int) -> tuple[float, float, float]:
    """Calls per second of so many processes, and the median and 99th percentile of what one took."""
    command = [sys.executable, __file__, "--replica", place]
    names = [f"{replicas}-{number}-{each}" for each in range(replicas)]
    started = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in names
    ]
    for each in started:
        assert each.stdout is not None
        each.stdout.readline()
    told = _said_at_once(started)
    took = sorted(ms for said in told for ms in json.loads(said))
    return len(took) / _SECONDS, statistics.median(took), took[int(0.99 * (len(took) - 1))]


def _said_at_once(processes: list[subprocess.Popen[str]]) -> list[str]:
    for each in processes:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    return [each.communicate()[0] for each in processes]


def compare_calls(url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        places = [("a file", str(Path(folder) / "journal.db"), 1), *(("PostgreSQL", url, n) for n in (1, 2, 3))]
        for name, place, replicas in places:
            rounds = [calls(place, replicas, number) for number in range(_ROUNDS)]
            rate, middle, late = (statistics.median(each) for each in zip(*rounds, strict=True))
            print(
                f"{replicas} processes, {name}: {rate:6.0f} calls/s, median {middle:.0f} ms, p99 {late:.0f} ms",
                file=sys.stderr,
            )


def main() -> None:
    if sys.argv[1:2] == ["--replica"]:
        print(json.dumps(asyncio.run(replica(*sys.argv[2:]))))
        return
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
        compare_calls(url)
    sys.exit(f"short of {_AIM:.0%} of bare inserts" if missed else 0)


if __name__ == "__main__":
    main()
