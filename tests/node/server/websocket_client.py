"""A client of the WebSocket door that says exactly what a test wants it to say."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.capability_bus import CapabilityBus

PROTOCOL = "hearthnet-bus.v2"
COUNT = CapabilityDescriptor(
    name="count.up",
    request_schema={"type": "object"},
    stream_schema={"token": {"type": "object"}, "tool_call": {"type": "object"}},
    timeout_seconds=60,
)


class CountingCapability:
    """Counts up to `input.to` and waits at `input.wait` until it is let go; it knows whether it was cancelled."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.began = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.runs = 0
        self.sent = 0

    async def __call__(self, request: RouteRequest) -> dict[str, Any]:
        self.runs += 1
        self.began.set()
        try:
            for number in range(1, request.input.get("to", 3) + 1):
                if number == request.input.get("wait"):
                    await self.go.wait()
                await request.send("token", {"text": str(number)})
                self.sent = number
            if request.input.get("asks"):
                await request.send("tool_call", {"id": "tc_1", "name": "add", "arguments": {}})
                said = await request.answer("tc_1")
                await request.send("token", {"text": json.dumps(said)})
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return {"output": {"sent": self.sent}, "meta": {"stop_reason": "end"}}


def counting_bus(*, side_effects: bool = False) -> tuple[CapabilityBus, CountingCapability]:
    bus, counting = CapabilityBus(), CountingCapability()
    bus.register(replace(COUNT, side_effects=side_effects), counting)
    return bus, counting


def call(request_id: str = "r-1", /, **input: Any) -> dict[str, Any]:
    body = {"input": input}
    return {
        "type": "call",
        "envelope": {"capability": "count.up", "version": "1.0", "request_id": request_id, "body": body},
    }


@asynccontextmanager
async def socket_to(url: str, **options: Any) -> AsyncIterator[ClientConnection]:
    address = url.replace("http://", "ws://") + "/bus/v1/call"
    options.setdefault("subprotocols", [Subprotocol(PROTOCOL)])
    async with connect(address, compression=None, proxy=None, close_timeout=1, **options) as connection:
        yield connection


async def send_message(connection: ClientConnection, message: Any) -> None:
    await connection.send(message if isinstance(message, str | bytes) else json.dumps(message))


async def receive_message(connection: ClientConnection) -> Any:
    async with asyncio.timeout(20):
        return json.loads(await connection.recv())


async def receive_until_closed(connection: ClientConnection, *, ack: bool = True) -> list[Any]:
    """Everything until the socket closes."""
    heard: list[Any] = []
    try:
        while True:
            heard.append(await receive_message(connection))
            if ack and "seq" in heard[-1]:
                with suppress(ConnectionClosed):  # what came before the end is still to be read
                    await send_message(connection, {"type": "ack", "upto": heard[-1]["seq"]})
    except ConnectionClosed:
        return heard


def reset_connection(connection: ClientConnection) -> None:
    """Vanish: the other side gets a reset and not a word."""
    raw: socket.socket = connection.transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.transport.abort()
