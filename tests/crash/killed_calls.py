"""Runs the same twenty calls again and again, each time in a process that is killed with SIGKILL somewhere.

`python -m tests.crash.killed_calls FOLDER` forks one process for each way to die, lets
another one resume what it left, and prints what both did as one JSON line each.
Three kinds of death: at a certain step of a call, at a certain write to the
journal, or after a time drawn from the seed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from handrail import Context, Executor, Invocation, Policy, Tool, ToolCall, tool
from handrail.core.calls import ToolResult
from handrail.core.errors import JournalError
from handrail.core.events import CallIntended, CallSettled, Recorded
from handrail.core.ports import Lease
from handrail.journal.journal import SqliteJournal
from handrail.journal.reader import history

RUN = "run-of-twenty"
KINDS = ("read", "pay", "put", "settle")
CALLS = [ToolCall(f"call-{n:02}", KINDS[n % 4], {"n": n}) for n in range(20)]
STEPS = 122
"""Two for each write to the journal (the first entry, an intent and an answer for each call), two for each effect."""
NEVER = 10**9


class ProcessDeath:
    """Kills the process at the n-th step, or after a while."""

    def __init__(self, at_step: int = NEVER, after: float | None = None) -> None:
        self._left = at_step
        self._after = after

    def begin(self) -> None:
        if self._after is not None:
            timer = threading.Timer(self._after, die)
            timer.daemon = True
            timer.start()

    def step(self) -> None:
        if self._left == 0:
            die()
        self._left -= 1


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingJournal:
    """The real journal, with a place to die before and after each write."""

    def __init__(self, journal: SqliteJournal, death: ProcessDeath) -> None:
        self._journal = journal
        self._death = death

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        self._death.step()
        await self._journal.append(event, durable=durable)
        self._death.step()

    def append_at_once(self, event: Recorded, *, durable: bool = False) -> bool:
        self._death.step()
        appended = self._journal.append_at_once(event, durable=durable)
        self._death.step()
        return appended

    def append_soon(self, event: Recorded) -> bool:
        self._death.step()
        return self._journal.append_soon(event)

    async def history(self, run: str) -> list[Recorded]:
        return await self._journal.history(run)

    async def lease(self, run: str) -> Lease:
        return await self._journal.lease(run)

    async def aclose(self) -> None:
        await self._journal.aclose()


def note(path: Path, *words: object) -> None:
    """A line that is on disk when this returns: what really happened, written by the world and not by us."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, (" ".join(map(str, words)) + "\n").encode())
    os.close(file)


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def tools(folder: Path, death: ProcessDeath) -> list[Tool]:
    """Of each kind one: a read, an effect, an idempotent effect, an effect that can be looked up."""
    effects = folder / "effects"

    async def act(invocation: Invocation, kind: str) -> str:
        death.step()
        note(effects, kind, invocation.id, invocation.idempotency_key)
        death.step()
        await asyncio.sleep(0)
        return f"{kind} {invocation.id}"

    async def look_up(invocation: Invocation) -> str | None:
        done = any(words[:2] == ["settle", invocation.id] for words in lines(effects))
        return f"settle {invocation.id}" if done else None

    @tool
    async def read(n: int, invocation: Invocation) -> str:
        return await act(invocation, "read")

    @tool(side_effects=True)
    async def pay(n: int, invocation: Invocation) -> str:
        return await act(invocation, "pay")

    @tool(side_effects=True, idempotent=True)
    async def put(n: int, invocation: Invocation) -> str:
        return await act(invocation, "put")

    @tool(side_effects=True, reconcile=look_up)
    async def settle(n: int, invocation: Invocation) -> str:
        return await act(invocation, "settle")

    return [read, pay, put, settle]


async def work(folder: Path, death: ProcessDeath, acknowledged: Path, width: int) -> dict[str, Any]:
    """Make all twenty calls, `width` at a time, and note each result that was given to us."""
    death.begin()
    results: dict[str, ToolResult] = {}
    async with await SqliteJournal.open(folder / "journal.db") as journal:
        policy = Policy(confirm_side_effects=False)
        async with Executor(tools(folder, death), journal=DyingJournal(journal, death), policy=policy) as executor:
            for start in range(0, len(CALLS), width):
                for result in await executor.invoke_all(CALLS[start : start + width], Context(run=RUN)):
                    results[result.tool_call_id] = result
                    note(acknowledged, result.tool_call_id, result.outcome, json.dumps(result.content))
    return {id: [result.outcome, result.content] for id, result in results.items()}


def deaths(seed: int, count: int) -> Iterator[tuple[ProcessDeath, int]]:
    """Ways to die, and how many calls are under way at once."""
    chance = random.Random(seed)
    steps = list(range(STEPS))
    chance.shuffle(steps)
    for n in range(count):
        width = chance.choice((1, 1, 4))
        if n < len(steps):
            yield ProcessDeath(at_step=steps[n]), width
        else:
            yield ProcessDeath(after=chance.uniform(0.0, 0.06)), width


def one(folder: Path, death: ProcessDeath, width: int) -> dict[str, Any]:
    folder.mkdir()
    status = forked(lambda: asyncio.run(work(folder, death, folder / "before", width)))
    crashed = {
        "effects": lines(folder / "effects"),
        "acknowledged": {words[0]: words[1] for words in lines(folder / "before")},
        "open": left_open(folder / "journal.db"),
    }
    resumed = forked(lambda: dump(folder / "after", asyncio.run(work(folder, ProcessDeath(), folder / "ack", 4))))
    return {
        "killed": os.WIFSIGNALED(status),
        "resumed": os.waitstatus_to_exitcode(resumed) == 0,
        "crashed": crashed,
        "effects": lines(folder / "effects"),
        "results": json.loads((folder / "after").read_text()) if (folder / "after").exists() else None,
        "journal": str(folder / "journal.db"),
        "width": width,
    }


def left_open(journal: Path) -> list[str]:
    """The calls that the record says were begun and not answered."""
    found: dict[str, bool] = {}
    try:
        events = history(journal, RUN)
    except JournalError:  # it died before the file was a journal
        events = []
    for event in events:
        match event:
            case CallIntended(call_id=id):
                found[id] = True
            case CallSettled(call_id=id):
                found[id] = False
    return [id for id, is_open in found.items() if is_open]


def dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def forked(job: Any) -> int:
    """Run a job in a child and wait for its end, whatever that is."""
    pid = os.fork()
    if pid == 0:
        try:
            job()
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def main(folder: Path, seed: int, count: int) -> None:
    for n, (death, width) in enumerate(deaths(seed, count)):
        sys.stdout.write(json.dumps(one(folder / str(n), death, width)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
