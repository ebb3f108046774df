"""The ways to a node that the scenarios take. A new one is one more row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from handrail import CapabilityBus
from handrail.bus.http import HttpBus
from handrail.bus.http import Transport as By
from handrail.bus.port import Bus
from tests.bus.http.served import served

Transport = Callable[[CapabilityBus], AbstractAsyncContextManager[Bus]]
"""Opens a way to a node, and gives the bus that its callers use."""


@asynccontextmanager
async def local(node: CapabilityBus) -> AsyncIterator[Bus]:
    yield node


@asynccontextmanager
async def over_http(node: CapabilityBus, by: By) -> AsyncIterator[Bus]:
    async with served(node) as url, HttpBus(url, transport=by) as bus:
        yield bus


TRANSPORTS: dict[str, Transport] = {
    "local": local,
    "http-sse": partial(over_http, by="sse"),
    "http-ws": partial(over_http, by="websocket"),
}
