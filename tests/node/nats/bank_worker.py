"""A worker that can be killed: `python -m tests.node.nats.bank_worker URL COMMUNITY LEDGER`.

It looks, puts and pays; each effect is one line in the ledger. What becomes of a call besides is in its input: the
worker may die before the effect or after it, or wait there until a file exists.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.capability_bus import CapabilityBus
from handrail.node.nats.door import NatsDoor
from handrail.node.nats.pace import NatsPace
from handrail.node.nats.worker import serve_worker
from tests.node.nats.nats_fixtures import QUICK, WelcomingAdmission
from tests.polling import until

KINDS = {
    # capability     side effects, idempotent
    "bank.look": (False, False),
    "bank.put": (True, True),
    "bank.pay": (True, False),
}


class BankService:
    def __init__(self, ledger: Path) -> None:
        self._ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, line: str) -> None:
        os.write(self._ledger, f"{line}\n".encode())

    async def serve(self, request: RouteRequest) -> dict[str, Any]:
        given = request.input
        number, fate = given["number"], given.get("fate", "fine")
        self.note(f"began {request.capability} {number}")
        if fate == "dies before":
            os.kill(os.getpid(), signal.SIGKILL)
        if fate == "waits before":
            await _exists(Path(given["until"]))
        self.note(f"{request.capability} {number}")
        if fate == "dies after":
            os.kill(os.getpid(), signal.SIGKILL)
        if fate == "waits after":
            await _exists(Path(given["until"]))
        await asyncio.sleep(given.get("seconds", 0))
        return {"output": {"number": number, "worker": os.getpid()}}

    async def count(self, request: RouteRequest) -> dict[str, Any]:
        """A stream that stops in the middle."""
        for n in range(request.input["n"]):
            if n == request.input.get("waits_at"):
                await asyncio.Event().wait()
            await request.send("token", {"n": n})
        return {"output": {}}


def _ready(_: NatsDoor) -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


async def _exists(path: Path) -> None:
    await until(path.exists, seconds=600)  # another process makes it


async def main(url: str, community: str, ledger: Path, pace: NatsPace) -> None:
    bank = BankService(ledger)
    async with CapabilityBus(node_id=f"bank-{os.getpid()}", admission=WelcomingAdmission()) as bus:
        for name, (side_effects, idempotent) in KINDS.items():
            descriptor = CapabilityDescriptor(
                name=name, side_effects=side_effects, idempotent=idempotent, timeout_seconds=60, max_concurrent=64
            )
            bus.register(descriptor, bank.serve)
        bus.register(CapabilityDescriptor(name="bank.count", stream_schema={"token": {"type": "object"}}), bank.count)
        await serve_worker(bus, url, community=community, pace=pace, ready=_ready)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), QUICK))
