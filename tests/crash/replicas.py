"""Three replicas over one PostgreSQL that make the same calls, while they, the server and the connections between fail.

`python -m tests.crash.replicas --effects 60 --faults 12 --seed 1` starts them and prints what came of it as JSON. Each
effect is a line in a file, which is the truth. Every replica tries to make every call: whichever has the lease of its
run makes it, or goes on with it where another was cut off, and the others are told what it answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from handrail import Context, Executor, Invocation, Policy, Tool, ToolCall, tool
from handrail.core.errors import JournalError
from handrail.journal import audit
from handrail.journal.journal import JournalTiming
from handrail.journal.postgres_journal import PostgresJournal
from handrail.state.url import StateUrl
from tests.crash.killed_calls import lines, note
from tests.polling import blocking_until
from tests.postgres import PostgresServer, private_server

REPLICAS = 3
HEARTBEAT = 0.3
_STOPPED = 6 * HEARTBEAT
"""Seconds: longer than a lease."""
_AT_ONCE = 4


def _tools(folder: Path) -> list[Tool]:
    effects = folder / "effects"

    @tool(side_effects=True)
    async def pay(job: int, invocation: Invocation) -> str:
        note(effects, job)
        await asyncio.sleep(0)
        return f"paid {job}"

    async def look_up(invocation: Invocation) -> str | None:
        job = invocation.arguments["job"]
        return f"booked {job}" if [str(job)] in lines(effects) else None

    @tool(side_effects=True, reconcile=look_up)
    async def book(job: int, invocation: Invocation) -> str:
        note(effects, job)
        return f"booked {job}"

    return [pay, book]


async def replicate(url: str, folder: Path, name: str, jobs: int, seed: int) -> None:
    """Have every job made, here or elsewhere, and note what it answered."""
    timing = JournalTiming(patience=30)
    told = folder / f"told-{name}"
    left = [job for job in range(jobs) if str(job) not in {words[0] for words in lines(told)}]
    random.Random(seed).shuffle(left)
    policy = Policy(confirm_side_effects=False)
    async with (
        await PostgresJournal.open(url, heartbeat=HEARTBEAT, timing=timing) as journal,
        Executor(_tools(folder), journal=journal, policy=policy) as executor,
    ):
        while left:
            again: list[int] = []
            lanes = [_work(executor, told, left[lane::_AT_ONCE], again) for lane in range(_AT_ONCE)]
            await asyncio.gather(*lanes)
            left = again
            await asyncio.sleep(HEARTBEAT / 3 if left else 0)


async def _work(executor: Executor, told: Path, jobs: list[int], again: list[int]) -> None:
    for job in jobs:
        run = f"job-{job}"
        call = ToolCall("call", ("pay", "book")[job % 2], {"job": job})
        try:
            result = await executor.invoke(call, Context(run=run))
            await executor.finish(run)
        except JournalError:  # somebody else works on it, or took it up, or the server is away
            executor.runs.let_go(run)
            again.append(job)
        else:
            note(told, job, result.outcome)


class Trial:
    """The replicas, and what is done to them."""

    def __init__(self, server: PostgresServer, folder: Path, jobs: int, seed: int) -> None:
        self.faults: Counter[str] = Counter()
        self._server = server
        self._folder = folder
        self._jobs = jobs
        self._chance = random.Random(seed)
        self._replicas = {str(number): self._start(str(number)) for number in range(REPLICAS)}

    def run(self, faults: int) -> None:
        """Hurt them so often, and wait until all is done."""
        kinds = (self._kill, self._kill, self._stop, self._stop, self._cut, self._restart)
        while self.faults.total() < faults and not self._is_done():
            self._revive()
            told = self._told()
            step = max(1, REPLICAS * self._jobs // (2 * faults))
            blocking_until(partial(self._has_told, told + step), seconds=1)
            kind = self._chance.choice(kinds)
            kind()
            self.faults[kind.__name__.strip("_")] += 1
        for name, process in self._replicas.items():
            while process.wait(300) != 0:
                process = self._replicas[name] = self._start(name)

    def _revive(self) -> None:
        """One that was started while the server was not has ended."""
        for name, process in self._replicas.items():
            if process.poll() not in (None, 0):
                self._replicas[name] = self._start(name)

    def _has_told(self, enough: int) -> bool:
        return self._is_done() or self._told() >= enough

    def _told(self) -> int:
        return sum(len(lines(self._folder / f"told-{name}")) for name in self._replicas)

    def _is_done(self) -> bool:
        return all(process.poll() == 0 for process in self._replicas.values())

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        words = ("--replica", name, "--folder", str(self._folder), "--url", self._server.url())
        sizes = ("--effects", str(self._jobs), "--seed", str(self._chance.randrange(10**6)))
        log = (self._folder / f"log-{name}").open("ab")
        with log:
            return subprocess.Popen([sys.executable, "-m", "tests.crash.replicas", *words, *sizes], stderr=log)

    def _one(self) -> Iterator[str]:
        names = [name for name, process in self._replicas.items() if process.poll() is None]
        yield from self._chance.sample(names, min(1, len(names)))

    def _kill(self) -> None:
        for name in self._one():
            self._replicas[name].kill()
            self._replicas[name].wait()
            self._replicas[name] = self._start(name)

    def _stop(self) -> None:
        for name in self._one():
            process = self._replicas[name]
            process.send_signal(signal.SIGSTOP)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOPPED)
            process.send_signal(signal.SIGCONT)

    def _cut(self) -> None:
        others = "pid <> pg_backend_pid() AND application_name = 'handrail'"
        self._server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")

    def _restart(self) -> None:
        self._server.kill()
        self._server.start()

    def end(self) -> None:
        for process in self._replicas.values():
            process.kill()
            process.wait()


def tried(jobs: int, faults: int, seed: int) -> dict[str, Any]:
    """What came of it, in numbers that should be 0, and others."""
    with tempfile.TemporaryDirectory(prefix="handrail-replicas-") as name, private_server(durable=True) as server:
        folder = Path(name)
        trial = Trial(server, folder, jobs, seed)
        try:
            trial.run(faults)
        finally:
            trial.end()
        return {**_judged(folder, jobs), "faults": dict(trial.faults), **_proven(server.url())}


def _judged(folder: Path, jobs: int) -> dict[str, Any]:
    done = Counter(int(words[0]) for words in lines(folder / "effects"))
    told: dict[int, set[str]] = {job: set() for job in range(jobs)}
    by_all = Counter[int]()
    for number in range(REPLICAS):
        seen = {int(job): outcome for job, outcome in lines(folder / f"told-{number}")}
        for job, outcome in seen.items():
            told[job].add(outcome)
            by_all[job] += 1
    return {
        "effects": done.total(),
        "doubled": [job for job, times in done.items() if times > 1],
        "lost": [job for job in range(jobs) if by_all[job] < REPLICAS],
        "falsely claimed": [job for job, outcomes in told.items() if "ok" in outcomes and not done[job]],
        "told apart": {job: sorted(outcomes) for job, outcomes in told.items() if len(outcomes) > 1},
        "other outcomes": sorted({each for outcomes in told.values() for each in outcomes} - {"ok", "in_doubt"}),
        "in doubt": sum(outcomes == {"in_doubt"} for outcomes in told.values()),
    }


def _proven(url: str) -> dict[str, Any]:
    report = audit(StateUrl(url))
    return {"verified": report.ok, "entries": report.entries, "problems": [each.why for each in report.problems[:3]]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--effects", type=int, default=60)
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replica")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--url")
    given = parser.parse_args()
    if given.replica is not None:
        asyncio.run(replicate(given.url, given.folder, given.replica, given.effects, given.seed))
        return
    found = tried(given.effects, given.faults, given.seed)
    sys.stdout.write(json.dumps(found) + "\n")
    bad = ("doubled", "lost", "falsely claimed", "told apart", "other outcomes")
    sys.exit(any(found[each] for each in bad) or not found["verified"])


if __name__ == "__main__":
    main()
