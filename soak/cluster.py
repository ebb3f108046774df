"""Three `handrail serve` over one PostgreSQL with a standby and two workers on a NATS cluster of three, and all of it
fails.

`python -m soak.cluster --effects 200 --faults 20 --seed 1` plays it and prints what came of it as JSON. Each effect is
a line in a file, which is the truth. Requests come through a round-robin proxy that replays them: a request without an
answer goes to the next replica, as it is or as another attempt, and now and then one with an answer does too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import aiohttp

from handrail.journal import audit
from handrail.state.url import StateUrl
from soak.postgres_pair import PostgresPair, postgres_pair
from tests.cli.journal_fixtures import environment
from tests.network import free_port
from tests.node.nats.nats_fixtures import NatsServer
from tests.polling import blocking_until, until

AT_ONCE = 24
REPLAYED = 0.2
"""The share of requests with an answer that come once more, to another replica."""
LOOKED_AT = 1_000
"""Calls that every replica is asked about at the end."""
_STOPPED = 5.0
"""Seconds: longer than a lease."""
_OUTAGE = 2.0
_CALM = 20.0
"""Seconds in which some calls should be answered before the next fault."""
_GIVES_UP = 300.0
"""Seconds after which a call without an answer is lost."""

_TOOLS = '''
import os
from handrail import Invocation, tool

def note(line):
    handle = os.open("../effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\\n".encode())
    os.close(handle)

async def find_booked(invocation: Invocation) -> str | None:
    job = invocation.arguments["job"]
    with open("../effects") as file:
        return f"booked {job}" if f"booked {job}\\n" in file else None

@tool(side_effects=True)
async def pay(job: int) -> str:
    """Pay."""
    note(f"paid {job}")
    return f"paid {job}"

@tool(side_effects=True, reconcile=find_booked)
async def book(job: int) -> str:
    """Book."""
    note(f"booked {job}")
    return f"booked {job}"
'''
_SHIPPING = '''
import os
from handrail import tool

@tool(side_effects=True)
async def ship(job: int) -> str:
    """Ship."""
    handle = os.open("../effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"shipped {job}\\n".encode())
    os.close(handle)
    return f"shipped {job}"
'''
KINDS = {"tool.pay": "paid", "tool.book": "booked", "tool.ship": "shipped"}
_CLOCK = """
import os, time
_time, _time_ns, _file = time.time, time.time_ns, os.environ["HANDRAIL_CLOCK"]
def _ahead():
    try:
        return int(open(_file).read() or 0)
    except (OSError, ValueError):
        return 0
time.time = lambda: _time() + _ahead()
time.time_ns = lambda: _time_ns() + _ahead() * 10**9
"""
"""`sitecustomize.py` of the processes: their clock of the day is ahead by what a file says."""


class Program:
    """A command of handrail in a folder of its own, which is started again whenever it has died."""

    def __init__(self, folder: Path, name: str, state: str, *words: str, files: dict[str, str]) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        for file, text in files.items():
            (self.folder / file).write_text(text)
        (self.folder / "sitecustomize.py").write_text(_CLOCK)
        self.clock = self.folder / "clock"
        self._words = [sys.executable, "-m", "handrail", *words]
        path = os.pathsep.join([str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        own = {"XDG_STATE_HOME": str(self.folder / "state"), "HANDRAIL_CLOCK": str(self.clock), "PYTHONPATH": path}
        self._environment = environment(HANDRAIL_STATE=state, **own)
        self._process: subprocess.Popen[bytes] | None = None

    def said(self, *words: str) -> str:
        """What another command says in its folder."""
        command = [sys.executable, "-m", "handrail", *words]
        done = subprocess.run(command, cwd=self.folder, env=self._environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._words, cwd=self.folder, env=self._environment, stdout=log, stderr=log
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def restart(self) -> None:
        self.kill()
        self.start()

    def drain(self) -> None:
        self.signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert self._process is not None
            self._process.wait(30)
        self.restart()

    def revive(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self.start()


class Replica(Program):
    def __init__(self, folder: Path, name: str, state: str, nats: list[str]) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        at = [word for url in nats for word in ("--nats", url)]
        listen = ("--listen", f"127.0.0.1:{port}", "--tools", "tools.py", "--token-file", "token")
        super().__init__(folder, name, state, "serve", *listen, *at, files={"tools.py": _TOOLS})

    def is_up(self) -> bool:
        """Whether it takes calls. One that has ended is started again."""
        self.revive()
        try:
            with urlopen(f"{self.url}/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


@dataclass
class Told:
    """What callers were told of one call, in order."""

    kind: str
    answers: list[str] = field(default_factory=list)

    @property
    def last(self) -> str:
        return self.answers[-1] if self.answers else "lost"


class City:
    """All of it."""

    def __init__(self, stack: ExitStack, folder: Path, seed: int) -> None:
        self.folder = folder
        self.dice = random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.answered: int = 0
        self.pair: PostgresPair = stack.enter_context(postgres_pair())
        self.pair.create("node", "workers")
        self.servers = _cluster(stack)
        nats = [each.url for each in self.servers]
        self.replicas = [Replica(folder, f"replica-{n}", self.pair.url("node"), nats) for n in range(3)]
        for replica in self.replicas:
            stack.callback(replica.kill)
            replica.start()
            _wait(replica.is_up, replica)
        self.token = (self.replicas[0].folder / "token").read_text().strip()
        self.workers = [self._worker(stack, n, nats) for n in range(2)]
        for replica in self.replicas:
            _wait(partial(self._ships, replica), replica)

    def _ships(self, replica: Replica) -> bool:
        """Whether it has heard of the workers."""
        token = ("--token-file", str(self.replicas[0].folder / "token"))
        return "tool.ship" in replica.said("bus", "list", "--at", replica.url, *token)

    def _worker(self, stack: ExitStack, number: int, nats: list[str]) -> Program:
        """Workers share a state too: whichever of them is asked again knows what the other one did."""
        node = self.replicas[0].said("identity", "show").strip()
        config = f'[node]\nnats = {json.dumps(nats)}\n[node.trust]\n"{node}" = "member"\n'
        files = {"tools.py": _SHIPPING, "handrail.toml": config}
        state = self.pair.url("workers")
        worker = Program(self.folder, f"worker-{number}", state, "worker", "--tools", "tools.py", files=files)
        stack.callback(worker.kill)
        worker.said("approve", "--yes")
        worker.start()
        _wait(lambda: "Serving" in (worker.folder / "log").read_text(), worker)
        return worker

    # ── what is done to it ───────────────────────────────────────────────────────────

    def hurt(self, kind: str) -> None:
        """Do something to it that an operator fears, and undo it where nothing undoes it by itself."""
        getattr(self, f"_{kind}")()
        self.faults[kind] += 1

    def mend(self, kind: str) -> None:
        """Start what has ended by itself."""
        if kind in OF_THE_DATABASE:
            return self.pair.mend()
        for program in (*self.replicas, *self.workers):
            program.revive()

    def _kill_replica(self) -> None:
        self.dice.choice(self.replicas).restart()

    def _drain_replica(self) -> None:
        self.dice.choice(self.replicas).drain()

    def _stop_replica(self) -> None:
        self._stop(self.dice.choice(self.replicas))

    def _kill_worker(self) -> None:
        self.dice.choice(self.workers).restart()

    def _stop_worker(self) -> None:
        self._stop(self.dice.choice(self.workers))

    def _stop(self, program: Program) -> None:
        program.signal(signal.SIGSTOP)
        time.sleep(_STOPPED)
        program.signal(signal.SIGCONT)

    def _kill_nats(self) -> None:
        server = self.dice.choice(self.servers)
        server.kill()
        time.sleep(self.dice.random())
        server.start()

    def _jump_clock(self) -> None:
        """By up to an hour, until somebody sets it nearly right. Meanwhile no node believes its signatures."""
        program = self.dice.choice([*self.replicas, *self.workers])
        for most in (3_600, 100):
            program.clock.write_text(str(self.dice.randint(-most, most)))
            time.sleep(_OUTAGE)

    def _cut_connections(self) -> None:
        self.pair.cut()

    def _restart_postgres(self) -> None:
        self.pair.restart()

    def _fail_over(self) -> None:
        self.pair.fail_over()

    def _exhaust_connections(self) -> None:
        with self.pair.few_connections():
            time.sleep(_OUTAGE)

    def _fill_disk(self) -> None:
        with self.pair.full_disk():
            time.sleep(_OUTAGE)
        time.sleep(0.5)
        self.pair.mend()


KINDS_OF_FAULTS = {
    "kill_replica": 5,
    "drain_replica": 2,
    "stop_replica": 3,
    "kill_worker": 4,
    "stop_worker": 2,
    "kill_nats": 4,
    "jump_clock": 2,
    "cut_connections": 3,
    "restart_postgres": 3,
    "fail_over": 1,
    "exhaust_connections": 2,
    "fill_disk": 2,
}


OF_THE_DATABASE = frozenset(("cut_connections", "restart_postgres", "fail_over", "exhaust_connections", "fill_disk"))
"""These come one after the other, and beside those of the processes."""


def _cluster(stack: ExitStack) -> list[NatsServer]:
    routes = [free_port() for _ in range(3)]
    known = ",".join(f"nats://127.0.0.1:{port}" for port in routes)
    servers = []
    for port in routes:
        at = ("--cluster_name", "soak", "--cluster", f"nats://127.0.0.1:{port}", "--routes", known)
        servers.append(NatsServer(*at))
    for each in servers:
        stack.callback(each.kill)
        each.start()
        each.wait()
    return servers


def _wait(condition: Callable[[], object], program: Program) -> None:
    if not blocking_until(condition, seconds=60):
        raise RuntimeError(f"it does not start:\n{(program.folder / 'log').read_text()[-2_000:]}")


# ── callers ──────────────────────────────────────────────────────────────────────────


class Proxy:
    """Sends each request to the next replica, and again to the one after it if there is no answer."""

    def __init__(self, city: City, http: aiohttp.ClientSession, seed: int) -> None:
        self._urls = [each.url for each in city.replicas]
        self._http = http
        self._headers = {"authorization": f"Bearer {city.token}"}
        self._next = 0
        self.dice = random.Random(seed)

    async def ask(self, told: Told, job: int) -> None:
        """Note what the call is answered in the end."""
        # Of a call that it passes on, and that was put before, a replica says that nobody knows: it was not asked.
        counts = told.kind != "tool.ship" and self.dice.random() < 0.5
        self._next += 1
        first, end, attempt = self._next, time.monotonic() + _GIVES_UP, 0
        while time.monotonic() < end:
            url = self._urls[(first + attempt) % len(self._urls)]
            attempt += 1
            answer, wait = await self.once(url, told.kind, job, attempt if counts else 1)
            if answer is not None:
                told.answers.append(answer)
                if self.dice.random() >= REPLAYED:
                    return
            await asyncio.sleep(wait)

    async def once(self, url: str, kind: str, job: int, attempt: int) -> tuple[str | None, float]:
        """An answer, or None and how long to wait before it is asked for again."""
        body = {"capability": kind, "version": "1.0", "body": {"input": {"job": job}}, "request_id": f"{kind}-{job}"}
        asked = {**body, "attempt": attempt} if attempt > 1 else body
        try:
            async with self._http.post(f"{url}/bus/v1/call", json=asked, headers=self._headers) as response:
                said = await response.json()
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError):
            return None, 0.2
        if response.status == 200:
            return str(said["output"]["content"]), 0.0
        if said.get("outcome") == "in_doubt" and said.get("retry_after_ms") is None:
            return "in_doubt", 0.0
        return None, min(1.0, said.get("retry_after_ms", 200) / 1000)


async def _call_all(city: City, jobs: int, faults: int, seed: int, over: asyncio.Event) -> dict[int, Told]:
    """Each fault comes under load: the calls are spread over all of them. Those that were begun when it is `over`."""
    dice = random.Random(seed)
    told = {job: Told(dice.choice(list(KINDS))) for job in range(jobs)}
    left = list(told)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as http:
        proxy = Proxy(city, http, seed + 1)

        async def caller() -> None:
            while left and not over.is_set():
                if jobs - len(left) > jobs * (city.faults.total() + 1) / (faults + 1):
                    await asyncio.sleep(0.05)
                    continue
                job = left.pop()
                await proxy.ask(told[job], job)
                city.answered += 1

        await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
    return {job: each for job, each in told.items() if job not in left}


async def _seen(city: City, told: dict[int, Told], seed: int) -> dict[int, list[str]]:
    """What each replica says of calls, now that nothing fails any more."""
    doubtful = [job for job, each in told.items() if each.last == "in_doubt"]
    chosen = {*doubtful, *random.Random(seed).sample(sorted(told), min(LOOKED_AT, len(told)))}
    seen: dict[int, list[str]] = {}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as http:
        proxy = Proxy(city, http, seed)
        for job in sorted(chosen):
            seen[job] = []
            for replica in city.replicas:
                answer, end = None, time.monotonic() + _GIVES_UP
                while answer is None and time.monotonic() < end:
                    answer, wait = await proxy.once(replica.url, told[job].kind, job, 1)
                    await asyncio.sleep(0 if answer else wait)
                seen[job].append(answer or "lost")
    return seen


# ── the whole of it ──────────────────────────────────────────────────────────────────


async def played(city: City, jobs: int, faults: int, seed: int, minutes: float) -> dict[str, Any]:
    over, kinds, started = asyncio.Event(), list(_drawn(faults, seed)), time.monotonic()
    calling = asyncio.create_task(_call_all(city, jobs, faults, seed, over))

    async def hurt(some: list[str]) -> None:
        for kind in some:
            if time.monotonic() - started > 60 * minutes:
                return over.set()
            await asyncio.to_thread(city.hurt, kind)
            await asyncio.to_thread(city.mend, kind)
            enough = city.answered + AT_ONCE
            with contextlib.suppress(TimeoutError):
                await until(partial(lambda enough: calling.done() or city.answered >= enough, enough), seconds=_CALM)

    try:
        ofs = ([kind for kind in kinds if (kind in OF_THE_DATABASE) is which] for which in (True, False))
        await asyncio.gather(*map(hurt, ofs))
        told = await calling
    finally:
        calling.cancel()
    took = time.monotonic() - started
    for replica in city.replicas:
        await asyncio.to_thread(_wait, replica.is_up, replica)
    seen = await _seen(city, told, seed)
    return {**_judged(city, told, seen), "faults": dict(city.faults), "seconds": round(took), **_proven(city)}


def _drawn(faults: int, seed: int) -> Iterator[str]:
    """Each kind once, as far as there is room, and then by weight."""
    dice = random.Random(seed + 2)
    first = dice.sample(list(KINDS_OF_FAULTS), min(faults, len(KINDS_OF_FAULTS)))
    yield from first
    yield from dice.choices(list(KINDS_OF_FAULTS), list(KINDS_OF_FAULTS.values()), k=faults - len(first))


def _judged(city: City, told: dict[int, Told], seen: dict[int, list[str]]) -> dict[str, Any]:
    path = city.folder / "effects"
    done = Counter(path.read_text().splitlines() if path.exists() else [])
    line = {job: f"{KINDS[each.kind]} {job}" for job, each in told.items()}
    claimed = [job for job, each in told.items() if line[job] in each.answers and not done[line[job]]]
    wrong = [job for job, each in told.items() if set(each.answers) - {line[job], "in_doubt"}]
    unsaid = [job for job, each in told.items() if line[job] in each.answers[:-1] and each.last == "in_doubt"]
    return {
        "calls": len(told),
        "effects": done.total(),
        "doubled": [each for each, times in done.items() if times > 1],
        "lost": [job for job, each in told.items() if not each.answers],
        "falsely claimed": claimed,
        "another answer": wrong,
        "taken back": unsaid,
        "seen apart": {job: each for job, each in seen.items() if len({*each}) > 1 or "lost" in each},
        "in doubt": sum(each.last == "in_doubt" for each in told.values()),
        "looked at": len(seen),
    }


def _proven(city: City) -> dict[str, Any]:
    reports = {name: audit(StateUrl(city.pair.url(name))) for name in ("node", "workers")}
    return {
        "verified": all(each.ok for each in reports.values()),
        "entries": {name: each.entries for name, each in reports.items()},
        "problems": [problem.why for each in reports.values() for problem in each.problems[:3]],
    }


BAD = ("doubled", "lost", "falsely claimed", "another answer", "taken back", "seen apart")


def tried(jobs: int, faults: int, seed: int, minutes: float = 120.0) -> dict[str, Any]:
    """What came of it: the lists of `BAD` should be empty. After so many minutes nothing more is begun."""
    with tempfile.TemporaryDirectory(prefix="handrail-city-") as name, ExitStack() as stack:
        city = City(stack, Path(name), seed)
        return asyncio.run(played(city, jobs, faults, seed, minutes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--effects", type=int, default=200)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=120.0)
    given = parser.parse_args()
    found = tried(given.effects, given.faults, given.seed, given.minutes)
    sys.stdout.write(json.dumps(found) + "\n")
    sys.exit(any(found[each] for each in BAD) or not found["verified"])


if __name__ == "__main__":
    main()
