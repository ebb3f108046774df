"""What the whole executor adds to a trivial async tool, beside validating by hand and calling the function.

    python bench/bench_executor.py [--rounds 15] [--calls 2000]

By hand is what a careful program would write without us: parse the arguments,
validate them with `jsonschema_rs`, await the function. Rounds are interleaved; the
figures are medians. A table goes to stderr, JSON to stdout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import jsonschema_rs
import msgspec

from handrail import Context, Executor, Policy, ToolCall, tool
from handrail.journal.journal import SqliteJournal

Way = Callable[[int], Awaitable[None]]


async def add(a: int, b: int) -> int:
    return a + b


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def by_hand() -> Way:
    validator = jsonschema_rs.validator_for(SCHEMA)

    async def way(calls: int) -> None:
        for n in range(calls):
            arguments = msgspec.json.decode(f'{{"a": {n}, "b": 1}}')
            validator.validate(arguments)
            await add(**arguments)

    return way


def through(executor: Executor, name: str, at_once: int = 1) -> Way:
    runs = iter(range(10**9))

    async def one(context: Context, numbers: range) -> None:
        for n in numbers:
            result = await executor.invoke(ToolCall(f"call-{n}", name, f'{{"a": {n}, "b": 1}}'), context)
            assert result.outcome == "ok", result.text

    async def way(calls: int) -> None:
        context = Context(run=f"{name}-{at_once}-{next(runs)}")
        await asyncio.gather(*(one(context, range(first, calls, at_once)) for first in range(at_once)))
        await executor.finish(context.run)

    return way


def bare(folder: str) -> tuple[sqlite3.Connection, Way]:
    """Two durable commits for each call, as a side effect needs, and nothing else."""
    connection = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE entry (seq INTEGER PRIMARY KEY, leaf BLOB)")

    async def way(calls: int) -> None:
        for _ in range(2 * calls):
            connection.execute("INSERT INTO entry (leaf) VALUES (?)", (b"x" * 700,))

    return connection, way


async def measured(ways: dict[str, tuple[Way, int]], rounds: int) -> dict[str, float]:
    """Microseconds per call of each way, the median over interleaved rounds."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (way, calls) in ways.items():
            start = time.perf_counter()
            await way(calls)
            times[name].append((time.perf_counter() - start) / calls * 1e6)
    return {name: statistics.median(each) for name, each in times.items()}


async def main(rounds: int, calls: int) -> None:
    reads = tool(add)
    writes = tool(side_effects=True, name="write")(add)
    policy = Policy(confirm_side_effects=False)
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as folder:
        async with await SqliteJournal.open(Path(folder) / "journal.db") as journal:
            plain, kept = Executor([reads], policy=policy), Executor([reads, writes], policy=policy, journal=journal)
            connection, two_commits = bare(folder)
            ways = {
                "by hand": (by_hand(), calls),
                "executor": (through(plain, "add"), calls),
                "executor, journal, a read": (through(kept, "add"), calls // 4),
                "bare SQLite, two commits": (two_commits, calls // 4),
                "executor, journal, a side effect": (through(kept, "write"), calls // 4),
                "the same, 8 at once": (through(kept, "write", 8), calls // 4),
            }
            await measured(ways, 1)
            found = await measured(ways, rounds)
            connection.close()
            await plain.aclose()
            await kept.aclose()
    for name, each in found.items():
        print(f"{name:36}{each:9.1f} µs a call", file=sys.stderr)
    print(f"the executor adds {found['executor'] - found['by hand']:.1f} µs", file=sys.stderr)
    for name in ("executor, journal, a side effect", "the same, 8 at once"):
        share = found["bare SQLite, two commits"] / found[name]
        print(f"{name}: {share:.0%} of the entries a second that bare commits reach", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    asyncio.run(main(options.rounds, options.calls))
