"""The memory of a real node process while strangers send it as much as they can."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.node.server.http_node import CALL, client, open_connection

ROOT = Path(__file__).resolve().parents[3]
MIB = 1024 * 1024
STRANGERS = 60
MESSAGE = 15 * MIB
PIECE = b'"' + b"x" * (64 * 1024 - 2) + b'"'
PROGRAM = """
import asyncio, sys
from tests.node.server.http_node import NodeFixture
from handrail.node.server.node import ServerLimits
from handrail.node.server.serving import serve

async def main() -> None:
    scene = NodeFixture(limits=ServerLimits(grace=0.3))
    await serve(scene.server, ready=lambda url: print(url, scene.token, flush=True))

asyncio.run(main())
"""


class NodeProcess(NamedTuple):
    url: str
    token: str
    pid: int

    @property
    def peak(self) -> int:
        """Bytes that it had in memory at most, since it began."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


@asynccontextmanager
async def node_process() -> AsyncIterator[NodeProcess]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM), cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            url, token = (await process.stdout.readline()).decode().split()
            yield NodeProcess(url, token, process.pid)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _frame(opcode: int, size: int, *, last: bool = True) -> bytes:
    """The head of a frame, with a mask that changes nothing."""
    return bytes([opcode | (0x80 if last else 0), 0x80 | 127]) + size.to_bytes(8, "big") + bytes(4)


def whole() -> Iterator[bytes]:
    """One message in one frame."""
    yield _frame(1, MESSAGE)
    yield from (PIECE for _ in range(MESSAGE // len(PIECE)))


def in_fragments() -> Iterator[bytes]:
    """One message in many frames."""
    count = MESSAGE // len(PIECE)
    for number in range(count):
        yield _frame(0 if number else 1, len(PIECE), last=number == count - 1) + PIECE


def many_small_ones() -> Iterator[bytes]:
    """Messages of which each is small, before the first was answered."""
    small = PIECE[: 32 * 1024]
    for _ in range(MESSAGE // len(small)):
        yield _frame(1, len(small)) + small


def a_request() -> Iterator[bytes]:
    """A POST."""
    yield b"POST %b HTTP/1.1\r\nHost: localhost\r\n" % CALL.encode()
    yield b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % MESSAGE
    yield from (PIECE for _ in range(MESSAGE // len(PIECE)))


def _opening() -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    head = f"GET {CALL} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    head += f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: hearthnet-bus.v2\r\nSec-WebSocket-Key: {key}\r\n\r\n"
    return head.encode()


async def _stranger(url: str, pieces: Callable[[], Iterator[bytes]], sent: asyncio.Event, leave: asyncio.Event) -> None:
    """Send everything, as fast as it is taken, and stay: what the node holds of it, it goes on holding."""
    reader, writer = await open_connection(url)
    with suppress(ConnectionError):
        if pieces is not a_request:
            writer.write(_opening())
            assert b" 101 " in (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0]
        for piece in pieces():
            writer.write(piece)
            await writer.drain()
    sent.set()
    await leave.wait()
    writer.transport.abort()


@pytest.mark.parametrize("kind", [whole, in_fragments, many_small_ones, a_request])
async def test_sixty_strangers_with_large_messages_take_no_more_memory_than_is_stated(
    kind: Callable[[], Iterator[bytes]],
) -> None:
    async with node_process() as node, client(node.url, node.token) as http:
        assert (await http.get("/health")).status_code == 200
        before, leave = node.peak, asyncio.Event()
        sent = [asyncio.Event() for _ in range(STRANGERS)]
        strangers = [asyncio.create_task(_stranger(node.url, kind, each, leave)) for each in sent]
        for each in sent:
            await each.wait()
        assert (await http.get("/health")).status_code == 200
        taken = node.peak - before
        leave.set()
        await asyncio.gather(*strangers)
    assert taken <= 128 * MIB, f"{taken / MIB:.0f} MiB"
