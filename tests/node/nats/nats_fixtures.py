"""What the tests of NATS share: a real server that can be killed, a node behind it, and a caller."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from handrail.core.context import Principal
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import Caller
from handrail.node.capability_bus import CapabilityBus
from handrail.node.nats.bus import NatsBus
from handrail.node.nats.door import NatsDoor
from handrail.node.nats.link import NatsLink
from handrail.node.nats.pace import NatsPace
from tests.network import free_port
from tests.polling import until

PROGRAM = Path(sys.executable).parent / "nats-server"
QUICK = NatsPace(heartbeat=0.1, grace=0.5, gather=0.05, connect=20.0)
"""Losses are noticed in 0.3 s, and believed half a second later."""
PATIENT = NatsPace(heartbeat=0.1, grace=30.0, gather=0.05)
"""The same for who is sure that the other end comes back."""
CALM = NatsPace(heartbeat=1.0, missed=20, grace=30.0, gather=0.05, connect=30.0)
"""For those who lose nothing, on a machine that does much else."""
HOME = "home"


class WelcomingAdmission:
    """Everybody is a member, and keeps the name they came with."""

    async def admit(
        self, caller: Caller, token: Secret | None, descriptor: CapabilityDescriptor, body: Mapping[str, Any]
    ) -> Caller:
        return Caller(principal=Principal(caller.id), trust="member", token=token)


class NatsServer:
    """A process of its own, on a port that stays its own while it is down."""

    def __init__(
        self, *options: str, host: str = "127.0.0.1", port: int | None = None, netns: str | None = None
    ) -> None:
        self.host = host
        self.port = port or free_port()
        self._command = [str(PROGRAM), "-a", host, "-p", str(self.port), *options]
        if netns is not None:
            self._command = ["ip", "netns", "exec", netns, *self._command]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """With -9, as a machine dies."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Hold it, as a network does that loses everything."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def wait(self) -> None:
        """Until it takes connections."""
        while True:
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), timeout=5):
                return


@contextmanager
def nats_server(*options: str) -> Iterator[NatsServer]:
    server = NatsServer(*options)
    server.start()
    try:
        server.wait()
        yield server
    finally:
        server.kill()


@asynccontextmanager
async def node(
    server: NatsServer, *, pace: NatsPace = QUICK, community: str = HOME, node_id: str = "self"
) -> AsyncIterator[tuple[CapabilityBus, NatsDoor]]:
    """A bus in this process, and its door to NATS. Register, then `await door.refresh()`."""
    async with (
        CapabilityBus(node_id=node_id, admission=WelcomingAdmission()) as bus,
        NatsLink(server.url, pace=pace) as link,
        NatsDoor(bus, link, community=community) as door,
    ):
        yield bus, door


@asynccontextmanager
async def caller(
    server: NatsServer, *, pace: NatsPace = QUICK, community: str = HOME, **options: Any
) -> AsyncIterator[NatsBus]:
    async with NatsBus(server.url, community=community, pace=pace, **options) as bus:
        yield bus


ROOT = Path(__file__).parent.parent.parent.parent


class BankWorker:
    """`tests.node.nats.bank_worker` in a process of its own."""

    def __init__(self, server: NatsServer, ledger: Path, *, community: str = HOME, netns: str | None = None) -> None:
        inside = [] if netns is None else ["ip", "netns", "exec", netns]
        words = [*inside, sys.executable, "-m", "tests.node.nats.bank_worker", server.url, community, str(ledger)]
        self._process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "the worker did not start"

    @property
    def is_dead(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        self._process.kill()
        self.gone()

    def strike(self) -> None:
        """Kill it, and let somebody else see to the rest."""
        self._process.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self._process.terminate()

    def gone(self) -> int:
        """How it ended, once it has."""
        code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code


@contextmanager
def bank_workers(server: NatsServer, ledger: Path, count: int, *, community: str = HOME) -> Iterator[list[BankWorker]]:
    """All of them serve when this begins; whoever is left at the end is killed."""
    workers = [BankWorker(server, ledger, community=community) for _ in range(count)]
    try:
        for each in workers:
            each.wait_ready()
        yield workers
    finally:
        for each in workers:
            each.kill()


def effects(ledger: Path) -> list[str]:
    """What was done, without what was only begun."""
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return [line for line in lines if not line.startswith("began")]


async def begun(ledger: Path, what: str) -> None:
    """Until a worker has begun it."""
    await until(lambda: ledger.exists() and f"began {what}" in ledger.read_text().splitlines())
