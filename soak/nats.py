"""Very many calls over NATS while workers and the server die: is every answer true, and is anything done twice?

A town of worker processes behind one server. Somebody kills a worker or the server with -9 now and then and starts
it again, whatever it is doing; some calls make their worker die themselves, and some are given up. The workers
write down what they did; nobody else does.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from handrail.core.errors import BusError
from handrail.node.nats.bus import NatsBus
from soak.verdict import Verdict, run_and_measure, verdict_on_kills
from tests.node.nats.nats_fixtures import HOME, QUICK, BankWorker, NatsServer, effects

AT_ONCE = 8
KINDS = ("bank.look", "bank.put", "bank.pay")
FATES = {"fine": 980, "dies before": 8, "dies after": 12}
"""How often, of a thousand calls."""
CANCELLED = 0.03
LATE = 0.03
"""Calls that are cut short, and calls that have little time."""
KILL_EVERY = 0.4
"""Seconds between two kills from outside, in the mean; one in four is the server's."""
MOST_GROWTH = 30.0


@dataclass
class Town:
    server: NatsServer
    ledger: Path
    dice: random.Random
    workers: list[BankWorker] = field(default_factory=list)
    kills: int = 0

    async def keep_up(self, number: int) -> None:
        """A worker, started again whenever it has died."""
        while True:
            self.workers[number] = worker = BankWorker(self.server, self.ledger)
            await asyncio.to_thread(worker.gone)

    async def kill_at_random(self) -> None:
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / KILL_EVERY))
            self.kills += 1
            if self.dice.random() < 0.25:
                self.server.kill()
                await asyncio.sleep(self.dice.random() * 0.3)
                self.server.start()
            else:
                self.dice.choice(self.workers).strike()

    async def open(self, count: int) -> list[asyncio.Task[None]]:
        self.server.start()
        await asyncio.to_thread(self.server.wait)
        self.workers = [BankWorker(self.server, self.ledger) for _ in range(count)]
        for each in self.workers:
            await asyncio.to_thread(each.wait_ready)
        return [asyncio.create_task(self._kept(number)) for number in range(count)]

    async def _kept(self, number: int) -> None:
        await asyncio.to_thread(self.workers[number].gone)
        await self.keep_up(number)


@dataclass(frozen=True)
class Answer:
    outcome: str
    """`ok`, or what the error says of it."""
    code: str = ""
    number: int | None = None
    """What came back."""


async def _call(bus: NatsBus, dice: random.Random, capability: str, number: int) -> Answer:
    (fate,) = dice.choices(tuple(FATES), tuple(FATES.values()))
    body = {"input": {"number": number, "fate": fate, "seconds": dice.choice((0, 0, 0.01, 0.1))}}
    seconds = 0.05 if dice.random() < LATE else 20.0
    task = asyncio.ensure_future(bus.call(capability, (1, 0), body, timeout_seconds=seconds))
    if dice.random() < CANCELLED:
        await asyncio.wait({task}, timeout=dice.random() * 0.05)
        task.cancel()
    try:
        return Answer("ok", number=(await task)["output"]["number"])
    except asyncio.CancelledError:
        return Answer("given up")
    except BusError as error:
        return Answer(error.outcome, error.code)


def lie(capability: str, number: int, answer: Answer, times: int) -> str | None:
    """What is not true about an answer, given how often it was done."""
    if capability == "bank.pay" and times > 1:
        return f"it was done {times} times"
    match answer.outcome:
        case "ok" if not times:
            return "it was not done"
        case "ok" if answer.number != number:
            return f"it is the answer to another call: {answer.number}"
        case "failed" if times and capability != "bank.look":
            return f"it is told as failed ({answer.code}) and was done"
        case "ok" | "failed" | "timeout" | "in_doubt" | "given up":
            return None
    return f"it ended in {answer.outcome} ({answer.code})"


async def _some(numbers: list[int], bus: NatsBus, dice: random.Random, told: dict[tuple[str, int], Answer]) -> None:
    """One caller of several, who calls again as soon as it has an answer."""
    while numbers:
        number, capability = numbers.pop(), dice.choice(KINDS)
        told[capability, number] = answer = await _call(bus, dice, capability, number)
        if answer.code == "partition":
            await asyncio.sleep(0.5)  # workers take a moment to be there again


async def run(calls: int, seed: int, folder: Path, workers: int = 3) -> tuple[Counter[str], list[str], int, set[str]]:
    """How the calls ended, what is untrue of it, how often something was killed, and tasks that are left."""
    dice, told = random.Random(seed), dict[tuple[str, int], Answer]()
    town = Town(NatsServer(), folder / "ledger", random.Random(seed + 1))
    around = await town.open(workers)
    try:
        async with NatsBus(town.server.url, community=HOME, pace=QUICK) as bus:
            await bus.discover()
            around.append(asyncio.create_task(town.kill_at_random()))
            numbers = list(range(calls))
            await asyncio.gather(*(_some(numbers, bus, dice, told) for _ in range(AT_ONCE)))
    finally:
        for task in around:
            task.cancel()
        for each in town.workers:
            each.strike()
        await asyncio.gather(*around, return_exceptions=True)
        for each in town.workers:
            each.kill()
        town.server.kill()
    done = Counter(effects(town.ledger))
    lies = [
        f"{capability} {number}: {found}"
        for (capability, number), answer in told.items()
        if (found := lie(capability, number, answer, done[f"{capability} {number}"])) is not None
    ]
    lies += [] if len(told) == calls else [f"{len(told)} answers to {calls} calls"]
    left = {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    return Counter(answer.outcome for answer in told.values()), lies, town.kills, left


def survives(calls: int = 5_000, seed: int = 1) -> Verdict:
    found, growth = run_and_measure(run, calls, seed, warm_up=AT_ONCE * 4)
    return verdict_on_kills(calls, *found, growth, MOST_GROWTH)
