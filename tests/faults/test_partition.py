"""Case 30 with a network that is really cut: three nodes in namespaces of their own, two of which nobody reaches.

It needs root and `ip`, and is skipped where they are missing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import BusError
from handrail.node.nats.bus import NatsBus
from handrail.node.nats.pace import NatsPace
from tests.network import to_ourselves
from tests.node.nats.nats_fixtures import HOME, BankWorker, NatsServer, begun, effects
from tests.polling import until_asked

PATIENCE = 90.0
LONG = 80.0
SURE = NatsPace(heartbeat=0.1, grace=60.0, gather=0.05, ttl=1.0)
"""Of a caller who waits for the network to come back."""
SHORT = NatsPace(heartbeat=0.1, grace=0.6, gather=0.05, ttl=1.0)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _usable() -> str | None:
    """Why there can be no namespaces here; None if there can."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    if shutil.which("ip") is None:
        return "there is no `ip` here"
    made = subprocess.run(["ip", "netns", "add", f"hr{os.getpid()}t"], check=False, capture_output=True)
    if made.returncode != 0:
        return "network namespaces cannot be made here"
    _ip("netns", "del", f"hr{os.getpid()}t")
    return None


class Network:
    """A bridge in this namespace, and three others that are plugged into it."""

    def __init__(self) -> None:
        self._name = f"hr{os.getpid()}"
        self._net = f"198.18.{os.getpid() % 250}"
        self.address = f"{self._net}.254"
        self.spaces = [f"{self._name}n{n}" for n in range(3)]

    def up(self) -> None:
        _ip("link", "add", f"{self._name}b", "type", "bridge")
        _ip("addr", "add", f"{self.address}/24", "dev", f"{self._name}b")
        _ip("link", "set", f"{self._name}b", "up")
        for n, space in enumerate(self.spaces):
            inner = f"{self._name}i{n}"
            _ip("netns", "add", space)
            _ip("link", "add", self._plug(n), "type", "veth", "peer", "name", inner)
            _ip("link", "set", inner, "netns", space)
            _ip("link", "set", self._plug(n), "master", f"{self._name}b")
            _ip("link", "set", self._plug(n), "up")
            _ip("netns", "exec", space, "ip", "addr", "add", f"{self._net}.{n + 1}/24", "dev", inner)
            _ip("netns", "exec", space, "ip", "link", "set", inner, "up")

    def down(self) -> None:
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", f"{self._name}b"], check=False, capture_output=True)

    def cut(self, *nodes: int) -> None:
        """Everything sent to them and by them is lost, and nobody is told."""
        for n in nodes:
            _ip("link", "set", self._plug(n), "down")

    def heal(self, *nodes: int) -> None:
        for n in nodes:
            _ip("link", "set", self._plug(n), "up")

    def _plug(self, n: int) -> str:
        return f"{self._name}v{n}"


@contextmanager
def network() -> Iterator[Network]:
    made = Network()
    with to_ourselves():
        try:
            made.up()
            yield made
        finally:
            made.down()


async def ended(asking: asyncio.Task[dict[str, Any]]) -> str:
    try:
        await asking
    except BusError as error:
        return f"{error.code} {error.outcome}"
    return "ok"


async def node_ids(bus: NatsBus, count: int) -> None:
    """Until that many nodes are known."""

    async def known() -> bool:
        return len(await bus.discover("bank.pay")) == count

    await until_asked(known)


async def all_at_work(bus: NatsBus, number: int, ledger: Path, flag: Path) -> dict[str, asyncio.Task[dict[str, Any]]]:
    """Payments under way, one at each of the nodes, by the node's id."""
    asking: dict[str, asyncio.Task[dict[str, Any]]] = {}
    while len(asking) < 3:
        number += 1
        body = {"input": {"number": number, "fate": "waits after", "until": str(flag)}}
        before = {each.node_id: each.in_flight for each in await bus.discover("bank.pay")}
        task = asyncio.create_task(bus.call("bank.pay", (1, 0), body, timeout_seconds=LONG))
        await begun(ledger, f"bank.pay {number}")
        after = {each.node_id: each.in_flight for each in await bus.discover("bank.pay")}
        (at,) = [node for node, in_flight in after.items() if in_flight > before[node]]
        asking.setdefault(at, task)
        if asking[at] is not task:
            task.cancel()
            await asyncio.wait({task})
    return asking


async def test_30_two_of_three_nodes_are_cut_off_in_mid_call_and_come_back(tmp_path: Path) -> None:
    if (why := _usable()) is not None:
        pytest.skip(why)
    ledger, flag = tmp_path / "ledger", tmp_path / "go on"
    with network() as net, ExitStack() as stack:
        server = NatsServer(host=net.address)
        server.start()
        stack.callback(server.kill)
        await asyncio.to_thread(server.wait)
        workers = [BankWorker(server, ledger, netns=space) for space in net.spaces]
        for each in workers:
            stack.callback(each.kill)
        for each in workers:
            await asyncio.to_thread(each.wait_ready)
        ids = [f"bank-{each.pid}" for each in workers]
        async with (
            asyncio.timeout(PATIENCE),
            NatsBus(server.url, community=HOME, pace=SHORT) as me,
            NatsBus(server.url, community=HOME, pace=SURE) as sure,
        ):
            mine = await all_at_work(me, 100, ledger, flag)
            patient = await all_at_work(sure, 200, ledger, flag)
            assert set(mine) == set(patient) == set(ids)

            net.cut(0, 1)
            lost = [await ended(mine[ids[n]]) for n in (0, 1)]
            await node_ids(me, 1)
            still = await me.call("bank.look", (1, 0), {"input": {"number": 1}}, timeout_seconds=LONG)
            flag.touch()
            kept = await ended(mine[ids[2]])

            net.heal(0, 1)
            await node_ids(me, 3)
            healed = [await ended(patient[ids[n]]) for n in (0, 1, 2)]

    assert lost == ["partition in_doubt"] * 2  # it was done, and nobody could know
    assert kept == "ok" and still["output"]["number"] == 1
    assert healed == ["ok"] * 3
    paid = [line for line in effects(ledger) if line.startswith("bank.pay")]
    assert len(paid) == len(set(paid))
