"""How many entries per second the journal keeps, beside bare SQLite on the same disk.

    python bench/bench_journal.py [--rounds 40] [--entries 80] [--folder DIR]

Rounds are interleaved, so that a busy moment of the machine hits every way alike;
the figures are medians. The bare ways insert one row with the same bytes as an entry
into a table without an index, in WAL mode with `synchronous=FULL`: the least that
SQLite can do for a durable write. Every way runs until its write-ahead log has its full
length before the measuring begins, since one that still grows is half as fast.

A side effect is two durable entries, its intent and its end: side effects one after the other through the executor
are compared with two bare commits each. A short run takes a lease, begins, makes one call that reads, and ends.
A table goes to stderr, JSON to stdout.
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
from contextlib import AsyncExitStack
from pathlib import Path

from handrail import Context, Executor, Policy, ToolCall, tool
from handrail.core.calls import ToolResult
from handrail.core.events import CallSettled
from handrail.journal.entry import NO_PREVIOUS, SALT_SIZE, draft, seal_entry
from handrail.journal.journal import JournalTiming, SqliteJournal

Way = Callable[[int], Awaitable[None]]

RESULT = ToolResult("call_0", "io:read_file", {"path": "docs/index.md", "text": "All the words. " * 8})


def settled(number: int) -> CallSettled:
    return CallSettled(
        run="run_0123456789ab",
        at=1_700_000_000_000 + number,
        call_id=f"call_{number:032x}",
        tool="io:read_file",
        outcome="ok",
        duration_us=1200,
        ran=True,
        result=RESULT,
    )


EVENTS = [settled(number) for number in range(10_000)]


def row_size() -> int:
    """How many bytes an entry of ours puts into its row."""
    sealed = draft(settled(0), bytes(SALT_SIZE))
    texts = (sealed.run, sealed.call or "", sealed.type)
    return len(seal_entry(sealed, 0, 0, NO_PREVIOUS)) + 32 + SALT_SIZE + len(sealed.data or b"") + sum(map(len, texts))


def bare(folder: Path, name: str, sync: str, size: int) -> tuple[sqlite3.Connection, Way]:
    connection = sqlite3.connect(folder / f"{name}.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {sync}")
    connection.execute("CREATE TABLE entry (seq INTEGER PRIMARY KEY, leaf BLOB)")
    row = b"x" * size

    async def way(count: int) -> None:
        for _ in range(count):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO entry (leaf) VALUES (?)", (row,))
            connection.execute("COMMIT")

    return connection, way


def appends(journal: SqliteJournal, *, durable: bool, tasks: int = 1) -> Way:
    async def one(count: int) -> None:
        for event in EVENTS[:count]:
            await journal.append(event, durable=durable)

    async def way(count: int) -> None:
        if tasks == 1:
            await one(count)
            return
        async with asyncio.TaskGroup() as group:
            for _ in range(tasks):
                group.create_task(one(count // tasks))

    return way


def effects(executor: Executor) -> Way:
    """Side effects one after the other, each with an intent and an end that are synced."""
    numbers = iter(range(10**9))

    async def way(count: int) -> None:
        for number in (next(numbers) for _ in range(count)):
            result = await executor.invoke(
                ToolCall(f"call_{number}", "note", {"number": number}), Context(run="effects")
            )
            assert result.outcome == "ok"

    return way


def short_runs(executor: Executor) -> Way:
    """Runs with one read each."""
    numbers = iter(range(10**9))

    async def way(count: int) -> None:
        for number in (next(numbers) for _ in range(count)):
            run = f"short_{number}"
            await executor.invoke(ToolCall("call", "look", {}), Context(run=run))
            await executor.finish(run)

    return way


@tool(side_effects=True)
async def note(number: int) -> str:
    return f"noted {number}"


@tool(side_effects=False)
async def look() -> str:
    return "seen"


async def measure(ways: dict[str, Way], rounds: int, entries: int) -> dict[str, float]:
    """Entries per second of each way: the median over the rounds."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            started = time.perf_counter()
            await way(entries)
            rates[name].append(entries / (time.perf_counter() - started))
    return {name: statistics.median(found) for name, found in rates.items()}


async def bench(folder: Path, rounds: int, entries: int) -> dict[str, float]:
    full, bare_full = bare(folder, "bare-full", "FULL", row_size())
    normal, bare_normal = bare(folder, "bare-normal", "NORMAL", row_size())
    async with AsyncExitStack() as stack:

        async def journal(name: str, timing: JournalTiming = JournalTiming()) -> SqliteJournal:
            return await stack.enter_async_context(await SqliteJournal.open(folder / f"{name}.db", timing=timing))

        async def executor(name: str) -> Executor:
            policy = Policy(confirm_side_effects=False)
            made = Executor([note, look], journal=await journal(name), policy=policy)
            return await stack.enter_async_context(made)

        ways = {
            "bare, durable": bare_full,
            "journal, durable": appends(await journal("one"), durable=True),
            "journal, durable, by thread": appends(await journal("thread", JournalTiming(stall=0)), durable=True),
            "journal, durable, 8 tasks": appends(await journal("eight"), durable=True, tasks=8),
            "bare, not synced": bare_normal,
            "journal, not synced": appends(await journal("normal"), durable=False),
            "executor, effects": effects(await executor("effects")),
            "executor, short runs": short_runs(await executor("short")),
        }
        await measure(ways, 1, 2000)
        rates = await measure(ways, rounds, entries)
    full.close()
    normal.close()
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--entries", type=int, default=80)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="on the disk to measure")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=".bench-journal-", dir=chosen.folder) as folder:
        rates = asyncio.run(bench(Path(folder), chosen.rounds, chosen.entries))
    for name, rate in rates.items():
        print(f"{name:<30} {rate:>10,.0f} /s  {1e6 / rate:>8.1f} µs", file=sys.stderr)
    durable = rates["journal, durable"] / rates["bare, durable"]
    print(f"durable appends in one task run at {durable:.0%} of bare SQLite", file=sys.stderr)
    two_commits = 2 * rates["executor, effects"] / rates["bare, durable"]
    print(f"side effects one at a time run at {two_commits:.0%} of two bare durable commits", file=sys.stderr)
    ratios = {"durable_to_bare": durable, "effects_to_two_bare": two_commits}
    print(json.dumps({"rates_per_second": rates, **ratios}, indent=2))


if __name__ == "__main__":
    main()
