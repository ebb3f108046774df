"""The bus of one process keeps the contract of all buses: called directly, and as the node of another one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from handrail import CapabilityBus
from tests.contracts.bus_contract import BusContract, BusPair


class TestCapabilityBus(BusContract):
    @pytest.fixture
    async def bus_pair(self) -> AsyncIterator[BusPair]:
        async with CapabilityBus(node_id="node") as bus:
            yield BusPair(bus, bus)


class TestConnectedBus(BusContract):
    """Two nodes of one process: the caller's has nothing of its own."""

    @pytest.fixture
    async def bus_pair(self) -> AsyncIterator[BusPair]:
        async with CapabilityBus(node_id="node") as node, CapabilityBus(node_id="caller") as caller:
            await caller.connect(node, refresh=0)
            yield BusPair(node, caller)

    async def heard(self, bus_pair: BusPair) -> None:
        assert isinstance(bus_pair.caller, CapabilityBus)
        await bus_pair.caller.connect(bus_pair.node, refresh=0)
