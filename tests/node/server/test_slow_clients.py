"""Clients that send much and take nothing: what they hold is bounded, known or not, and others are still served."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.bus.streams import CapabilityResponse, FrameStream
from handrail.node.capability_bus import CapabilityBus
from handrail.node.server.lifecycle import NodeLifecycle
from handrail.node.server.node import ServerLimits
from handrail.node.server.stream_replay import AHEAD_BYTES, ENDED_BYTES, MAX_BYTES, CallKey, ReplayStore
from tests.node.http.loopback_node import served
from tests.node.server.http_node import NodeFixture, ask, client, eventually, open_connection, serving
from tests.node.server.websocket_client import receive_until_closed, socket_to

MIB = 1024 * 1024
CROWDED = ServerLimits(reading=MIB, grace=0.2)


async def half_sent(url: str, size: int = MIB, token: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that has sent most of a request; without a token, a stranger."""
    reader, writer = await open_connection(url)
    said = f"Authorization: Bearer {token}\r\n".encode() if token else b""
    head = b"POST /bus/v1/call HTTP/1.1\r\nHost: localhost\r\n%bContent-Length: %d\r\n\r\n"
    writer.write(head % (said, size))
    writer.write(b"x" * (size - 1))
    return reader, writer


async def test_of_a_stranger_no_large_request_is_read() -> None:
    scene = NodeFixture(limits=ServerLimits(grace=0.2))
    forged = scene.token_for("*").replace("hntoken://v1/", "hntoken://v1/x")
    async with serving(scene) as url:
        for token, status in (("", b"401"), (forged, b"400")):
            reader, writer = await half_sent(url, 900_000, token)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 " + status) and b"connection: close" in head
            writer.close()


async def test_clients_cannot_fill_the_memory_with_requests_that_do_not_end() -> None:
    scene = NodeFixture(limits=CROWDED)
    large = {"text": "x" * 700_000}
    async with serving(scene) as url, client(url, scene.token) as http:
        clients = [await half_sent(url, 900_000, scene.token) for _ in range(2)]
        heads = [asyncio.create_task(reader.readuntil(b"\r\n\r\n")) for reader, _ in clients]
        [told], _ = await asyncio.wait(heads, return_when=asyncio.FIRST_COMPLETED, timeout=20)
        assert told.result().startswith(b"HTTP/1.1 503") and b"retry-after: 1" in told.result()
        said = await ask(http, "test.say", large)
        assert (said.status_code, said.json()["error"], said.headers["retry-after"]) == (503, "capacity_exceeded", "1")
        assert (await ask(http, "test.say")).status_code == 200  # a small one always gets in
        for head, (_, writer) in zip(heads, clients, strict=True):
            head.cancel()
            writer.close()
        async with asyncio.timeout(20):
            while (await ask(http, "test.say", large)).status_code != 200:
                pass


async def test_nor_with_messages_on_sockets() -> None:
    bus = CapabilityBus()

    async def halves() -> AsyncIterator[str]:
        yield "x" * 600_000
        await asyncio.Event().wait()

    async with bus, served(bus, limits=CROWDED) as url, socket_to(url) as one, socket_to(url) as two:
        sending = [asyncio.create_task(each.send(halves())) for each in (one, two)]
        closed, _ = await asyncio.wait(
            [asyncio.create_task(each.wait_closed()) for each in (one, two)],
            return_when=asyncio.FIRST_COMPLETED,
            timeout=20,
        )
        assert len(closed) == 1
        assert sorted(each.close_code or 0 for each in (one, two)) == [0, 1013]
        for task in sending:
            task.cancel()
        await asyncio.wait(sending)
        for each in (one, two):
            each.transport.abort()


async def test_a_message_in_very_many_parts_is_refused() -> None:
    bus = CapabilityBus()
    async with bus, served(bus) as url, socket_to(url) as each:
        sending = asyncio.create_task(each.send(["x"] * 3_000))
        await receive_until_closed(each)
        await asyncio.wait((sending,))
        sending.exception()
    assert each.close_code == 1009


async def taking_little(url: str) -> asyncio.StreamWriter:
    """A connection that holds only a few kilobytes which nobody reads."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", httpx2.URL(url).port))
    return (await asyncio.open_connection(sock=raw))[1]


async def cut_off(writer: asyncio.StreamWriter, said: bytes) -> None:
    async with asyncio.timeout(20):
        with pytest.raises(ConnectionError):
            while True:
                writer.write(said)
                await writer.drain()
    writer.transport.abort()


async def test_a_client_that_asks_and_asks_and_reads_nothing_is_cut_off() -> None:
    scene = NodeFixture(limits=ServerLimits(write_seconds=0.2, grace=0.2))
    async with serving(scene) as url:
        request = f"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {scene.token}\r\n\r\n"
        await cut_off(await taking_little(url), request.encode() * 10)


async def test_a_client_that_takes_no_frame_is_cut_off_and_its_call_ends() -> None:
    scene = NodeFixture(limits=ServerLimits(write_seconds=0.2, linger=0, grace=0.2))
    body = b'{"input": {"to": 1000000}}'
    async with serving(scene) as url:
        writer = await taking_little(url)
        writer.write(
            b"POST /bus/v1/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Accept: text/event-stream\r\nX-HearthNet-Capability: test.count\r\n"
            + f"Authorization: Bearer {scene.token}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await eventually(lambda: scene.works.sent > 0)
        await eventually(lambda: not scene.bus.under_way)
        assert scene.works.sent < 1_000_000
        await cut_off(writer, b"x" * 100_000)


# ── what is kept of streams ──────────────────────────────────────────────────────────


def _large(frames: int) -> FrameStream:
    async def handler(stream: FrameStream) -> CapabilityResponse:
        for _ in range(frames):
            await stream.send("item", {"text": "x" * MIB})
        return CapabilityResponse(None, {})

    return FrameStream(handler, room=1)


async def test_a_capability_goes_no_further_ahead_of_its_reader_than_so_many_bytes() -> None:
    sent = 0

    async def large(request: RouteRequest) -> dict[str, Any]:
        nonlocal sent
        for _ in range(30):
            await request.send("item", {"text": "x" * MIB})
            sent += 1
        return {"output": {}}

    bus, life = CapabilityBus(), NodeLifecycle()
    bus.register(CapabilityDescriptor(name="test.large", stream_schema={"item": {}}), large)
    async with bus:
        replay = ReplayStore(life, frames=1_024, linger=0, kept_seconds=0)
        running = replay.start(CallKey("me", "1"), lambda: bus.stream("test.large", (1, 0), {}))
        reader = running.reader()
        await eventually(lambda: running.size > 0)
        for _ in range(200):
            await asyncio.sleep(0)
        assert running.size < AHEAD_BYTES + 2 * MIB
        count = 0
        while frames := await reader.read():
            count += len(frames)
            assert running.size < MAX_BYTES + AHEAD_BYTES + 2 * MIB
        assert (count, sent) == (31, 30)
        reader.close()
        await running.gone()


async def test_of_streams_that_have_ended_only_so_much_is_kept() -> None:
    replay = ReplayStore(NodeLifecycle(), frames=1_024, linger=0, kept_seconds=600)
    keys = [CallKey("me", str(number)) for number in range(12)]
    for key in keys:
        running = replay.start(key, lambda: _large(7))
        reader = running.reader()
        while await reader.read():
            pass
        reader.close()
        await running.gone()
    found = [each for key in keys if (each := replay.find(key)) is not None]
    assert sum(each.size for each in found) <= ENDED_BYTES
    assert [each.key for each in found] == keys[-len(found) :] and len(found) > 2
