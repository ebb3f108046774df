"""The ways to a node that the scenarios take. A new one is one more row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from handrail import CapabilityBus
from handrail.core.context import Principal
from handrail.node.bus.interfaces import Bus
from handrail.node.bus.request import Caller
from handrail.node.http import HttpBus, Transport as By
from handrail.node.nats.bus import NatsBus
from handrail.node.nats.door import NatsDoor
from handrail.node.nats.link import NatsLink
from tests.node.http.loopback_node import served
from tests.node.nats.nats_fixtures import CALM, nats_server

Transport = Callable[[CapabilityBus], AbstractAsyncContextManager[Bus]]
"""Opens a way to a node, and gives the bus that its callers use."""


@asynccontextmanager
async def local(node: CapabilityBus) -> AsyncIterator[Bus]:
    yield node


@asynccontextmanager
async def over_http(node: CapabilityBus, by: By) -> AsyncIterator[Bus]:
    async with served(node) as url, HttpBus(url, transport=by) as bus:
        yield bus


class TrustingAuthenticator:
    """At the door of a NATS worker: whoever does not sign is a member all the same."""

    def authenticate(self, fields: Mapping[str, str], body: bytes) -> Caller:
        return Caller(principal=Principal("guest"), trust="member")


@asynccontextmanager
async def over_nats(node: CapabilityBus) -> AsyncIterator[Bus]:
    with nats_server() as server:
        async with (
            NatsLink(server.url, pace=CALM) as link,
            NatsDoor(node, link, community="home", authenticator=TrustingAuthenticator()),
            NatsBus(server.url, community="home", pace=CALM) as bus,
        ):
            yield bus


TRANSPORTS: dict[str, Transport] = {
    "local": local,
    "http-sse": partial(over_http, by="sse"),
    "http-ws": partial(over_http, by="websocket"),
    "nats": over_nats,
}
