"""What every bus does, over NATS."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from handrail.core.ids import new_id
from tests.bus.nats.scene import CALM, NatsServer, caller, node
from tests.contracts.bus import BusContract, BusPair


class TestNatsBus(BusContract):
    @pytest.fixture
    async def bus_pair(self, shared: NatsServer) -> AsyncIterator[BusPair]:
        community = new_id("home")
        async with (
            node(shared, pace=CALM, community=community) as (bus, _),
            caller(shared, pace=CALM, community=community) as client,
        ):
            yield BusPair(bus, client)
