"""Very many calls over HTTP, WebSocket and NATS while nodes and the server die, callers give up and tokens are revoked.

Two nodes behind HTTP and NATS. One is killed with -9 now and then and started again, and so is the NATS server; the
other stays, and must not grow. Each call is made with a token of its caller's, which is taken away after some calls:
from then on nothing more may be done for it. The nodes write down what they did; nobody else does.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import sys
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.node.bus.interfaces import Bus
from handrail.node.http import HttpBus, Transport
from handrail.node.http.bus import HttpPace
from handrail.node.nats.bus import NatsBus
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import CapabilityToken, issue
from handrail.node.tokens.token_store import TokenStore
from soak.bus_node import NODE, TRACES
from soak.nats import CANCELLED, KINDS, LATE, Answer, lie
from soak.verdict import ROOT, Verdict, run_and_measure
from tests.node.nats.nats_fixtures import HOME, QUICK, NatsServer, effects

AT_ONCE = 8
STREAMED = 0.15
FRAMES = 40
KILL_EVERY = 0.7
"""Seconds between two kills, in the mean; one in three is the NATS server's."""
LENT = 12
"""Calls until a token is revoked; then there is one more call with it."""
MOST_GROWTH = 30.0
"""Megabytes, of this process and of the node that stays."""
MOST_FILES = 150
"""That the node may gain: connections, and the files in which leases are locked."""


class Node:
    """A node in a process of its own, on a port that stays its own."""

    def __init__(self, folder: Path, nats: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as door:
            self.port = int(door.getsockname()[1])
        self._words = [sys.executable, "-m", "soak.bus_node", str(folder), str(self.port), nats]
        self._log = folder / f"{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it anew. Calls can come then, unless it died at once, as it does without a NATS server."""
        self.kill()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._words, cwd=ROOT, stdout=subprocess.PIPE, stderr=log)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    @property
    def last_words(self) -> str | None:
        """What it said if it has died by itself."""
        if self._process is not None and self._process.poll() is None:
            return None
        return self._log.read_text(errors="replace")[-2_000:]

    def memory(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


@dataclass
class Town:
    folder: Path
    dice: random.Random
    server: NatsServer = field(default_factory=NatsServer)
    kills: int = 0

    def __post_init__(self) -> None:
        self.stays, self.dies = (Node(self.folder, self.server.url) for _ in range(2))

    async def open(self) -> None:
        self.server.start()
        await asyncio.to_thread(self.server.wait)
        await asyncio.gather(*(asyncio.to_thread(each.start) for each in (self.stays, self.dies)))
        for each in (self.stays, self.dies):
            if (words := each.last_words) is not None:
                raise RuntimeError(f"a node does not start:\n{words}")

    async def kill_at_random(self) -> None:
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / KILL_EVERY))
            self.kills += 1
            if self.dice.random() < 0.33:
                self.server.kill()
                await asyncio.sleep(self.dice.random() * 0.3)
                self.server.start()
            else:
                await asyncio.to_thread(self.dies.start)

    def close(self) -> None:
        for each in (self.stays, self.dies):
            each.kill()
        self.server.kill()


class Wallet:
    """The token of one caller, and how often it may still be used."""

    def __init__(self, store: TokenStore) -> None:
        self._store = store
        self._left = 0
        self._token: CapabilityToken | None = None
        self.text = Secret("")

    def next(self) -> bool:
        """Whether the token of the next call is good; it is taken away before the call."""
        if self._token is not None and not self._left:
            self._store.revoke(self._token.id)
            self._token = None
            return False
        if self._token is None:
            self._left = LENT
            self._token, self.text = issue(NODE, self._store, Scope.of(["bank.*"]), audience=HOME)
        self._left -= 1
        return True


@dataclass
class Told:
    """What callers were told."""

    answers: dict[tuple[str, int], Answer] = field(default_factory=dict)
    revoked: set[tuple[str, int]] = field(default_factory=set)
    """Calls with a token that was no longer good."""
    lies: list[str] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)


async def _call(bus: Bus, dice: random.Random, name: str, number: int, token: Secret) -> Answer:
    body = {"input": {"number": number, "seconds": dice.choice((0, 0, 0.01, 0.1))}}
    seconds = 0.05 if dice.random() < LATE else 20.0
    task = asyncio.ensure_future(bus.call(name, (1, 0), body, timeout_seconds=seconds, token=token))
    if dice.random() < CANCELLED:
        await asyncio.wait({task}, timeout=dice.random() * 0.05)
        task.cancel()
    try:
        return Answer("ok", number=(await task)["output"]["number"])
    except asyncio.CancelledError:
        return Answer("given up")
    except BusError as error:
        return Answer(error.outcome, error.code)


async def _listen(bus: Bus, dice: random.Random, number: int, token: Secret) -> tuple[Answer, str | None]:
    """A stream, read to its end or left early; and what is wrong with its frames."""
    leave = dice.randrange(FRAMES) if dice.random() < 0.2 else None
    seen: list[int] = []
    async with bus.stream("bank.count", (1, 0), {"input": {"n": FRAMES, "number": number}}, token=token) as stream:
        async for frame in stream:
            if frame.event == "done":
                wrong = None if seen == list(range(FRAMES)) else f"a stream that was whole has {seen}"
                return Answer("ok", number=number), wrong
            if frame.event == "error":
                error = BusError.from_dict(frame.data)
                return Answer(error.outcome, error.code), _gap(seen)
            seen.append(frame.data["n"])
            if len(seen) == leave:
                return Answer("given up"), _gap(seen)
    return Answer("nothing"), "a stream has no end"


def _gap(seen: list[int]) -> str | None:
    return None if seen == list(range(len(seen))) else f"a stream left frames out: {seen}"


async def _some(numbers: list[int], ways: dict[str, Bus], dice: random.Random, wallet: Wallet, told: Told) -> None:
    """One caller of several, who calls again as soon as it has an answer."""
    while numbers:
        number, good = numbers.pop(), wallet.next()
        way, bus = dice.choice(list(ways.items()))
        told.ways[way] += 1
        name, wrong = dice.choice(KINDS), None
        if dice.random() < STREAMED:
            name = "bank.count"
            answer, wrong = await _listen(bus, dice, number, wallet.text)
        else:
            answer = await _call(bus, dice, name, number, wallet.text)
        told.answers[name, number] = answer
        if not good:
            told.revoked.add((name, number))
            wrong = f"a revoked token gave {answer}" if answer.outcome == "ok" else wrong
        if wrong is not None:
            told.lies.append(f"{way} {name} {number}: {wrong}")
        if answer.code == "partition":
            await asyncio.sleep(0.2)  # nodes take a moment to be there again


def _judged(told: Told, done: Counter[str], calls: int) -> list[str]:
    lies = list(told.lies)
    for (name, number), answer in told.answers.items():
        if name == "bank.count":
            continue
        times = done[f"{name} {number}"]
        if answer.outcome == "forbidden" or (name, number) in told.revoked:
            lies += [f"{name} {number}: it was not allowed, and done"] if times else []
        elif (found := lie(name, number, answer, times)) is not None:
            lies.append(f"{name} {number}: {found}")
    return lies if len(told.answers) == calls else [*lies, f"{len(told.answers)} answers to {calls} calls"]


async def _opened(stack: AsyncExitStack, town: Town) -> dict[str, Bus]:
    """Every way to a node there is."""
    ways: dict[str, Bus] = {}
    kinds: tuple[Transport, ...] = ("sse", "websocket")
    for which, node in (("stays", town.stays), ("dies", town.dies)):
        for kind in kinds:
            bus = HttpBus(node.url, transport=kind, community=HOME, pace=HttpPace(patience=3.0, connect=2.0))
            stack.push_async_callback(bus.aclose)
            ways[f"{kind} {which}"] = bus
    ways["nats"] = await stack.enter_async_context(NatsBus(town.server.url, community=HOME, pace=QUICK))
    return ways


async def run(calls: int, seed: int, folder: Path) -> tuple[Told, list[str], int, set[str], tuple[float, int, int]]:
    """What was told, what is untrue of it, kills, tasks that are left, and what the node that stays has gained."""
    dice, told = random.Random(seed), Told()
    town, store = Town(folder, random.Random(seed + 1)), TokenStore(folder / "tokens.db")
    around: asyncio.Task[Any] | None = None
    try:
        await town.open()
        async with AsyncExitStack() as stack:
            ways = await _opened(stack, town)
            numbers = list(range(calls))
            first, rest = numbers[: calls // 3], numbers[calls // 3 :]
            around = asyncio.create_task(town.kill_at_random())
            await asyncio.gather(*(_some(first, ways, dice, Wallet(store), told) for _ in range(AT_ONCE)))
            before = town.stays.memory(), town.stays.files()
            await asyncio.gather(*(_some(rest, ways, dice, Wallet(store), told) for _ in range(AT_ONCE)))
            if (words := town.stays.last_words) is not None:
                raise RuntimeError(f"the node that stays has died:\n{words}")
            grown = town.stays.memory() - before[0], town.stays.files() - before[1], await _traces(town, store)
    finally:
        if around is not None:
            around.cancel()
            await asyncio.gather(around, return_exceptions=True)
        town.close()
        store.close()
    lies = _judged(told, Counter(effects(folder / "ledger")), calls)
    left = {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    return told, lies, town.kills, left, grown


async def _traces(town: Town, store: TokenStore) -> int:
    """How many calls the node that stays remembers."""
    import aiohttp

    _, text = issue(NODE, store, Scope.of(["*"]), audience=HOME, trust="trusted")
    headers = {"authorization": f"Bearer {text}"}
    async with (
        aiohttp.ClientSession(town.stays.url, headers=headers) as session,
        session.get("/trace/recent", params={"n": str(2 * TRACES)}) as answer,
    ):
        answer.raise_for_status()
        return len((await answer.json())["traces"])


def survives(calls: int = 6_000, seed: int = 1) -> Verdict:
    (told, lies, kills, left, (memory, files, traces)), growth = run_and_measure(run, calls, seed, warm_up=AT_ONCE * 6)
    before, after = growth.before, growth.after
    ok = not lies and not left and after == before
    ok = ok and max(growth.megabytes, memory) <= MOST_GROWTH and files <= MOST_FILES and traces <= TRACES
    outcomes = Counter(answer.outcome for answer in told.answers.values())
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    figures = (
        f"{calls} calls, {kills} kills from outside: {counts}; {len(lies)} untrue; {growth.megabytes:+.0f} MB,"
        f" {after.files - before.files:+d} files, {len(left)} tasks; the node that stays {memory:+.0f} MB,"
        f" {files:+d} files, {traces} traces"
    )
    return Verdict(ok, figures, "" if ok else f"before {before}\nafter {after}\n{left}\n" + "\n".join(lies[:20]))
