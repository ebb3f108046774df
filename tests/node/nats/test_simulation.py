"""Callers and workers on a network at its worst, by seed: each call has one outcome, and it is the truth."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from handrail.core.errors import BusError
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import CapabilityOffer
from handrail.node.nats.bus import NatsBus
from handrail.node.nats.door import NatsDoor
from handrail.node.nats.pace import NatsPace
from soak.nats import Answer, lie
from tests.node.nats.bank_worker import KINDS
from tests.node.nats.simulated_network import FakeLink, InstantLoop, Network

PACE = NatsPace(heartbeat=0.1, grace=0.5, gather=0.05)
SEEDS = 100
LONGEST = 60.0
"""Seconds, as the simulation counts them, in which everything must have ended."""


class Worker:
    """A bus that writes down what it does, until it is killed."""

    def __init__(self, network: Network, ledger: Counter[str], name: str) -> None:
        self.node_id = name
        self.link = FakeLink(network, PACE)
        self.door = NatsDoor(self, self.link, community="home")  # type: ignore[arg-type]
        self._dice = network.dice
        self._ledger = ledger
        self._offers = [
            CapabilityDescriptor(name=name, side_effects=effects, idempotent=idempotent, max_concurrent=3)
            for name, (effects, idempotent) in KINDS.items()
        ]
        self._in_flight = Counter[str]()

    async def discover(self, name: str | None = None) -> Sequence[CapabilityOffer]:
        return [
            CapabilityOffer(
                node_id="", descriptor=each, schema_hash="", local=True, in_flight=self._in_flight[each.name]
            )
            for each in self._offers
        ]

    async def call(self, capability: str, _: object, body: Mapping[str, Any], **how: Any) -> dict[str, Any]:
        if self._in_flight[capability] >= 3:
            raise BusError("capacity_exceeded", "full")
        self._in_flight[capability] += 1
        try:
            await self._works()
            if how["deadline"] is not None and asyncio.get_running_loop().time() > how["deadline"]:
                raise BusError("timeout", "too late", outcome="timeout")
            if self._dice.random() < 0.1:
                raise BusError("rate_limited", "not so often")
            self._ledger[f"{capability} {body['input']['number']}"] += 1
            await self._works()
            return {"output": {"number": body["input"]["number"]}}
        finally:
            self._in_flight[capability] -= 1

    async def _works(self) -> None:
        await asyncio.sleep(self._dice.choice((0, 0.005, 0.05, 0.6)))
        while self.link.client.gone:  # noqa: ASYNC110  # the dead do nothing
            await asyncio.sleep(1)


async def asked(bus: NatsBus, dice: random.Random, capability: str, number: int) -> list[Answer]:
    """The answers to one call. A payment of which nobody knows is asked for once more, by its id."""
    body = {"input": {"number": number, "text": "x" * dice.choice((0, 0, 3_000))}}
    seconds = dice.choice((None, 0.0, 0.3, 20.0))
    answers = []
    for _ in range(2):
        try:
            calling = bus.call(capability, (1, 0), body, call_id=f"{capability} {number}", timeout_seconds=seconds)
            answers.append(Answer("ok", number=(await calling)["output"]["number"]))
        except BusError as error:
            answers.append(Answer(error.outcome, error.code))
        if answers[-1].outcome != "in_doubt" or capability != "bank.pay":
            break
    return answers


def untrue(capability: str, number: int, answer: Answer, times: int) -> str | None:
    if times and answer.outcome in ("timeout", "cancelled") and capability != "bank.look":
        return f"it is told as {answer.outcome}, and was done"
    return lie(capability, number, answer, times)


async def town(seed: int) -> list[str]:
    """What was not true."""
    dice, ledger = random.Random(seed), Counter[str]()
    network = Network(dice, strays=".bank.pay.")
    workers = [Worker(network, ledger, f"w{n}") for n in range(3)]
    for each in workers:
        await each.door.start()
    mine = FakeLink(network, PACE)
    bus = NatsBus(mine, community="home", chance=dice.random)

    async def breaks() -> None:
        for _ in range(3):
            await asyncio.sleep(dice.random() * 0.5)
            link = dice.choice([mine, *(each.link for each in workers)])
            if link is not mine and dice.random() < 0.4:
                link.client.gone = True
            else:
                await link.broken(dice.random() * 2, noticed=dice.random() < 0.5)

    around = asyncio.create_task(breaks())
    calls = [(dice.choice(tuple(KINDS)), number) for number in range(8)]
    async with asyncio.timeout(LONGEST):
        told = await asyncio.gather(*(asked(bus, dice, *call) for call in calls))
        await around
        await asyncio.gather(*(each.door.aclose(1) for each in workers if not each.link.client.gone))
    return [
        f"seed {seed}, {capability} {number} after {answers}: {found}"
        for (capability, number), answers in zip(calls, told, strict=True)
        for answer in answers
        if (found := untrue(capability, number, answer, ledger[f"{capability} {number}"])) is not None
    ]


def test_whatever_the_network_does_each_call_has_one_outcome_and_it_is_true(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    untold = []
    for seed in range(SEEDS):
        with asyncio.Runner(loop_factory=InstantLoop) as runner:
            untold += runner.run(town(seed))

    assert untold == []


class Far(random.Random):
    """Nothing is lost, and everything takes its time."""

    def choices(self, *_: Any, **__: Any) -> list[Any]:
        return [1]

    def random(self) -> float:
        return 0.5

    def expovariate(self, lambd: float = 1.0) -> float:
        return 0.4


async def offered_from_afar() -> list[str]:
    network = Network(Far(1), strays=".bank.pay.")
    worker = Worker(network, Counter(), "w")
    await worker.door.start()
    offers = await NatsBus(FakeLink(network, NatsPace()), community="home").discover("bank.look")
    await worker.door.aclose(1)
    return [each.descriptor.name for each in offers]


def test_a_worker_is_found_also_where_its_answer_takes_a_while() -> None:
    with asyncio.Runner(loop_factory=InstantLoop) as runner:
        assert runner.run(offered_from_afar()) == ["bank.look"]
