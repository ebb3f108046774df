"""A node that can be killed, with doors for HTTP and NATS: `python -m soak.bus_node FOLDER PORT NATS`. It wants tokens.

What it does is in the ledger of the folder; its journal is there too, and the tokens that all nodes of the folder know.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from handrail.journal.journal import SqliteJournal
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.capability_bus import CapabilityBus
from handrail.node.nats.door import NatsDoor
from handrail.node.nats.link import NatsLink
from handrail.node.server.node import NodeFacts, NodeServer, ServerLimits
from handrail.node.server.serving import serve
from handrail.node.tokens.admission import TokenAdmission
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.token_store import TokenStore
from tests.node.nats.bank_worker import KINDS, BankService
from tests.node.nats.nats_fixtures import HOME, QUICK

NODE = Identity.from_seed(b"\x05" * 32)
TRACES = 500


def offered(bus: CapabilityBus, bank: BankService) -> None:
    for name, (side_effects, idempotent) in KINDS.items():
        descriptor = CapabilityDescriptor(
            name=name, side_effects=side_effects, idempotent=idempotent, timeout_seconds=60, max_concurrent=64
        )
        bus.register(descriptor, bank.serve)
    count = CapabilityDescriptor(name="bank.count", stream_schema={"token": {"type": "object"}}, max_concurrent=64)
    bus.register(count, bank.count)


def _ready(url: str) -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


async def main(folder: Path, port: int, nats: str) -> None:
    store = TokenStore(folder / "tokens.db")
    admission = TokenAdmission(node_id=NODE.node_id, store=store, community=HOME)
    facts = NodeFacts(name=f"node-{port}", node_id=f"{NODE.node_id}-{port}", community=HOME)
    async with (
        await SqliteJournal.open(folder / f"{port}.db") as journal,
        CapabilityBus(node_id=facts.node_id, admission=admission, journal=journal, ring=TRACES) as bus,
        NatsLink(nats, pace=QUICK) as link,
    ):
        offered(bus, BankService(folder / "ledger"))
        server = NodeServer(
            bus=bus, node=facts, identify=admission.identify, limits=ServerLimits(grace=0.2, kept_seconds=2.0)
        )
        async with NatsDoor(bus, link, community=HOME):
            await serve(server, port=port, ready=_ready)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
