"""Who is there, as `find_neighbour` asks."""

from __future__ import annotations

from handrail.node.capability_bus import CapabilityBus
from handrail.node.services.event_log import EventLog
from handrail.node.services.market import MarketService
from handrail.node.services.peers import PeersService
from tests.node.services.service_calls import ask


async def test_neighbours_come_first_with_names_and_what_they_offer() -> None:
    log = EventLog()
    async with CapabilityBus(node_id="ed25519:here") as bus, CapabilityBus(node_id="ed25519:there") as there:
        there.register_service(MarketService(log))
        bus.register_service(PeersService(bus, {"ed25519:there": "Hannes", "ed25519:away": "Ayşe"}))
        await bus.connect(there)

        assert (await ask(bus, "peers.list"))["peers"] == [
            {"node_id": "ed25519:away", "name": "Ayşe", "online": False, "local": False, "capabilities": []},
            {
                "node_id": "ed25519:there",
                "name": "Hannes",
                "online": True,
                "local": False,
                "capabilities": ["market.list@1.0", "market.post@1.0"],
            },
            {"node_id": "ed25519:here", "online": True, "local": True, "capabilities": ["peers.list@1.0"]},
        ]
        (hannes,) = (await ask(bus, "peers.list", {"capability": "market.post"}))["peers"]
        assert hannes["name"] == "Hannes"
        assert (await ask(bus, "peers.list", {"capability": "market.post@2.0"}))["peers"] == []
    log.close()
