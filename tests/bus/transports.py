"""The ways to a node that the scenarios take. A new one is one more row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from handrail import CapabilityBus
from handrail.bus.http import HttpBus
from handrail.bus.http import Transport as By
from handrail.bus.nats.bus import NatsBus
from handrail.bus.nats.door import NatsDoor
from handrail.bus.nats.link import Link
from handrail.bus.port import Bus
from handrail.bus.request import Caller
from handrail.core.context import Principal
from tests.bus.http.served import served
from tests.bus.nats.scene import CALM, nats_server

Transport = Callable[[CapabilityBus], AbstractAsyncContextManager[Bus]]
"""Opens a way to a node, and gives the bus that its callers use."""


@asynccontextmanager
async def local(node: CapabilityBus) -> AsyncIterator[Bus]:
    yield node


@asynccontextmanager
async def over_http(node: CapabilityBus, by: By) -> AsyncIterator[Bus]:
    async with served(node) as url, HttpBus(url, transport=by) as bus:
        yield bus


class Trusting:
    """At the door of a NATS worker: whoever does not sign is a member all the same."""

    def authenticate(self, fields: Mapping[str, str], body: bytes) -> Caller:
        return Caller(principal=Principal("guest"), trust="member")


@asynccontextmanager
async def over_nats(node: CapabilityBus) -> AsyncIterator[Bus]:
    with nats_server() as server:
        async with (
            Link(server.url, pace=CALM) as link,
            NatsDoor(node, link, community="home", authenticator=Trusting()),
            NatsBus(server.url, community="home", pace=CALM) as bus,
        ):
            yield bus


TRANSPORTS: dict[str, Transport] = {
    "local": local,
    "http-sse": partial(over_http, by="sse"),
    "http-ws": partial(over_http, by="websocket"),
    "nats": over_nats,
}
