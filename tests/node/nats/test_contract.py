"""What every bus does, over NATS."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from handrail.core.ids import new_id
from tests.contracts.bus_contract import BusContract, BusPair
from tests.node.nats.nats_fixtures import CALM, NatsServer, caller, node


class TestNatsBus(BusContract):
    @pytest.fixture
    async def bus_pair(self, shared: NatsServer) -> AsyncIterator[BusPair]:
        community = new_id("home")
        async with (
            node(shared, pace=CALM, community=community) as (bus, _),
            caller(shared, pace=CALM, community=community) as client,
        ):
            yield BusPair(bus, client)
