"""Four nodes that know each other, and payments that are full, fail and are cancelled at random: none is made twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from typing import Any

import pytest

from handrail import CapabilityBus
from handrail.core.errors import BusError
from handrail.node.bus.request import RouteRequest
from handrail.node.bus.wire_codes import WIRE
from tests.contracts.bus_contract import PATIENCE, offer, within_patience


class Bank:
    """Four nodes that know each other and have little room, and payments that end in every way."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.paid: Counter[str] = Counter()
        self.answers: dict[str, set[str]] = defaultdict(set)
        self.nodes = [CapabilityBus(node_id=name) for name in ("here", "a", "b", "c")]
        for node in self.nodes:
            room = self.chance.randint(1, 3)
            offer(node, "bank.pay", self.pay, side_effects=True, max_concurrent=room, timeout_seconds=PATIENCE)

    async def pause(self, most: int) -> None:
        for _ in range(self.chance.randint(0, most)):
            await asyncio.sleep(0)

    async def pay(self, request: RouteRequest) -> dict[str, Any]:
        self.paid[request.input["id"]] += 1
        await self.pause(20)
        if self.chance.random() < 0.15:
            raise BusError(self.chance.choice(["partition", "capacity_exceeded", "rate_limited", "internal_error"]))
        return {"output": {"receipt": self.paid.total()}}

    async def ask(self, id: str) -> None:
        await self.pause(30)
        body: Any = {"input": {"id": id}}
        if self.chance.random() < 0.3:
            async with self.nodes[0].stream("bank.pay", (1, 0), body, call_id=id) as stream:
                self.answers[id] |= {str(frame.data) async for frame in stream if frame.event == "result"}
            return
        try:
            self.answers[id].add(str((await self.nodes[0].call("bank.pay", (1, 0), body, call_id=id))["output"]))
        except BusError as error:
            assert error.code in WIRE

    async def cancel(self, task: asyncio.Task[None]) -> None:
        await self.pause(60)
        task.cancel()


@pytest.mark.parametrize("seed", range(20))
async def test_no_call_runs_twice_whatever_is_full_fails_or_is_cancelled(seed: int) -> None:
    bank = Bank(seed)
    async with within_patience(), AsyncExitStack() as stack:
        for node in bank.nodes:
            await stack.enter_async_context(node)
        pairs = [(one, two) for one in bank.nodes for two in bank.nodes if one is not two]
        for one, two in pairs if seed % 2 else pairs[:3]:
            await one.connect(two)
        tasks = [asyncio.create_task(bank.ask(f"p-{n // 3}")) for n in range(60)]
        await asyncio.gather(*(bank.cancel(task) for task in tasks[::4]))
        await asyncio.wait(tasks)
        await asyncio.gather(*(bank.ask(f"p-{n}") for n in range(20)))

    assert set(bank.paid.values()) == {1}
    assert {len(found) for found in bank.answers.values()} <= {0, 1}
    assert not any(node.under_way for node in bank.nodes)
