"""A node over HTTP is a bus like any other: what every bus does, by events and by socket."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from handrail.node.capability_bus import CapabilityBus
from handrail.node.http import HttpBus, Transport
from handrail.node.server.node import NodeFacts
from tests.contracts.bus_contract import BusContract, BusPair
from tests.node.http.loopback_node import ServerLimits, SwappableBus, served

pytestmark = pytest.mark.asyncio(loop_scope="module")
NODE = NodeFacts(node_id="ed25519:the-node")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[SwappableBus]:
    found = SwappableBus()
    async with served(found, node=NODE, limits=ServerLimits(linger=0.2, grace=0.2)) as found.url:
        yield found


@pytest.mark.requirement("hearthnet.sse")
@pytest.mark.requirement("hearthnet.websocket")
@pytest.mark.parametrize("transport", ["sse", "websocket"])
class TestHttpBus(BusContract):
    @pytest_asyncio.fixture(loop_scope="module")
    async def bus_pair(self, stage: SwappableBus, transport: Transport) -> AsyncIterator[BusPair]:
        async with CapabilityBus(node_id=NODE.node_id) as stage.bus, HttpBus(stage.url, transport=transport) as caller:
            yield BusPair(stage.bus, caller)
