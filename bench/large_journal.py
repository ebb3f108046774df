"""Makes a journal of a million entries, and measures what a request asks of it.

    python -m bench.large_journal FILE [--entries 1000000] [--rounds 5]
    python -m bench.large_journal --postgres [--entries 1000000]

The journal is made if it is not there, through its own writer. Its runs are as agents make them: most short, some long,
one that goes on from the first entry to the last, and questions of which some are never answered. A misspelt name is
looked up among 10,000 tools. Each figure is the median CPU time of some rounds, in milliseconds; with `--postgres`,
which makes a journal in a server of its own, that of the server is in it. A table goes to stderr, JSON to stdout.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import Any

from handrail import tool
from handrail.core.calls import ToolResult
from handrail.core.confirmation import ConfirmationSubject
from handrail.core.errors import UnknownTool
from handrail.core.events import (
    CallIntended,
    CallSettled,
    ConfirmationAnswered,
    ConfirmationRequested,
    Recorded,
    RunFinished,
    RunStarted,
    ToolsOffered,
)
from handrail.desk.views.journal_index import JournalIndex
from handrail.journal.auditing import export_run, prove
from handrail.journal.entry import draft
from handrail.journal.journal import BatchedJournal, SqliteJournal
from handrail.journal.places import JournalPlace
from handrail.journal.postgres_journal import HEARTBEAT, PostgresJournal
from handrail.journal.postgres_leases import PostgresLeases
from handrail.journal.postgres_writer import PostgresWriter
from handrail.journal.reader import JournalReader
from handrail.journal.writer import JournalWriter
from handrail.state.database import StateDatabase
from handrail.state.url import StateUrl
from handrail.tools.registry import RegisteredTools
from tests.postgres import private_server

AT = 1_700_000_000_000
TOGETHER = 500
SIGNED_EVERY = 1000


def events(seed: int = 22) -> Iterator[Recorded]:
    """What many runs record, some of them at the same time."""
    chance = random.Random(seed)
    open_runs = [("run_always", 10**9)]
    number = 0
    yield RunStarted(run="run_always", at=AT, tools="sha256:00")
    while True:
        number += 1
        if len(open_runs) < 8:
            run = f"run_{chance.getrandbits(64):016x}"
            open_runs.append((run, chance.choice((1, 2, 3, 5, 40))))
            yield RunStarted(run=run, at=AT + number, tools="sha256:00")
            yield ToolsOffered(run=run, at=AT + number, tools=("io:read", "io:write"))
            continue
        at = chance.randrange(len(open_runs)) if chance.random() < 0.98 else 0
        run, left = open_runs[at]
        yield from call(run, f"call_{number:08x}", AT + number, chance)
        open_runs[at] = run, left - 1
        if left <= 1:
            del open_runs[at]
            yield RunFinished(run=run, at=AT + number, reason="done")


def call(run: str, id: str, at: int, chance: random.Random) -> Iterator[Recorded]:
    place: dict[str, Any] = {"run": run, "at": at, "call_id": id, "tool": "io:write"}
    if chance.random() < 0.01:
        request = f"confirm_{id}"
        subject = ConfirmationSubject({"path": f"notes/{id}.txt"}, "nonce")
        yield ConfirmationRequested(**place, request=request, binds="sha256:11", asked=subject)
        if chance.random() < 0.02:
            return
        yield ConfirmationAnswered(
            run=run, at=at, request=request, call_id=id, binds="sha256:11", decision="allow", by="ada"
        )
    arguments = {"path": f"notes/{id}.txt", "text": "All the words. " * 8}
    yield CallIntended(**place, side_effects=True, idempotent=False, key=id, arguments=arguments)
    result = ToolResult(id, "io:write", {"text": "All the words. " * 8})
    yield CallSettled(**place, outcome="ok", duration_us=900, ran=True, result=result)


def make(path: JournalPlace, entries: int) -> None:
    with ExitStack() as stack:
        writer = _writer(path, stack)
        _fill(writer, entries)


def _writer(path: JournalPlace, stack: ExitStack) -> JournalWriter:
    if isinstance(path, StateUrl):
        database = stack.enter_context(closing(StateDatabase.open(path)))
        leases = stack.enter_context(closing(PostgresLeases(database, HEARTBEAT)))
        return PostgresWriter.open_state(path, signer=None, origin=None, leases=leases, patience=10)
    writer = JournalWriter.open(path)
    writer._connection.execute("PRAGMA synchronous = OFF")  # a journal that is made to be measured
    return writer


def _fill(writer: JournalWriter, entries: int) -> None:
    stream = islice(events(), entries)
    while batch := list(islice(stream, TOGETHER)):
        writer.commit([draft(each, bytes(16), writer.signer.sealing) for each in batch], durable=False)
        if writer.unsigned >= SIGNED_EVERY:
            writer.checkpoint()
            writer.move_pages()
    while writer.checkpoint() or writer.behind:
        pass
    writer.move_pages()
    writer.close()


def tools(count: int = 10_000) -> RegisteredTools:
    async def work(text: str) -> str:
        """Does nothing."""
        return text

    kinds = ("read", "write", "list", "search", "delete", "move", "describe", "publish", "archive", "restore")
    return RegisteredTools(
        tool(name=f"{kinds[at % 10]}_document_{at}", side_effects=False)(work) for at in range(count)
    )


def ways(path: JournalPlace, many: RegisteredTools) -> dict[str, Callable[[], object]]:
    with JournalReader(path) as reader:
        size = reader.size()
        middle = reader.entry(size // 2).run
        middle = middle if middle != "run_always" else reader.entry(size // 2 + 9).run
        calls = [each for each in reader.calls(middle) if each.answer is not None]
    call_id = calls[0].call_id

    def bundle() -> None:
        with tempfile.TemporaryDirectory() as folder:
            export_run(path, middle, Path(folder) / "bundle")

    def pending() -> None:
        with JournalReader(path) as reader:
            assert reader.pending()

    def misspelt() -> None:
        with contextlib.suppress(UnknownTool):
            many.find("reed_document_4711")

    async def opened() -> BatchedJournal:
        return await (PostgresJournal.open(path) if isinstance(path, StateUrl) else SqliteJournal.open(path))

    async def append() -> None:
        async with await opened() as journal:
            for event in islice(events(7), 200):
                await journal.append(event)

    async def open_and_resume() -> None:
        async with await opened() as journal:
            await journal.history(middle)

    return {
        "receipt": lambda: prove(path, call_id, run=middle),
        "receipt, run not given": lambda: prove(path, call_id),
        "bundle of a run": bundle,
        "first list of runs": lambda: JournalIndex(path).runs(limit=50),
        "first page of a run": lambda: JournalIndex(path).signed(middle, 0, 100),
        "pending questions": pending,
        "use of the tools": lambda: JournalIndex(path).usage(),
        "open, resume, close": lambda: asyncio.run(open_and_resume()),
        "open, append 200, close": lambda: asyncio.run(append()),
        "misspelt tool of 10,000": misspelt,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    if chosen.postgres:
        with private_server(durable=True) as server:
            url = StateUrl(server.url())
            make(url, chosen.entries)
            server.execute("ANALYZE")  # which the server does by itself within a minute
            server.restart()  # what it did so far counts no more
            measure(url, chosen.rounds, lambda: time.process_time() + server.processor_seconds)
        return
    if chosen.file is None:
        parser.error("name a file, or --postgres")
    if not chosen.file.exists():
        started = time.process_time()
        make(chosen.file, chosen.entries)
        print(f"made in {time.process_time() - started:.0f} s of CPU", file=sys.stderr)
    measure(chosen.file, chosen.rounds, time.process_time)


def measure(place: JournalPlace, rounds: int, clock: Callable[[], float]) -> None:
    found = {}
    for name, way in ways(place, tools()).items():
        took = []
        for _ in range(rounds):
            started = clock()
            way()
            took.append(1000 * (clock() - started))
        found[name] = statistics.median(took)
        print(f"{name:<28} {found[name]:>10.1f} ms", file=sys.stderr)
    print(json.dumps({"ms": found}, indent=2))


if __name__ == "__main__":
    main()
