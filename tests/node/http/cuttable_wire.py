"""A wire between a client and a node that a test can cut: bytes pass through it until they do not."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class CuttableWire:
    """Passes connections on to `to`. The n-th one is reset when `cuts[n]` bytes came back; others last."""

    def __init__(self, to: str, cuts: list[int | None]) -> None:
        self.to = to
        self.cuts = cuts
        self.upgrades: int | None = None
        """The status that a wish for a WebSocket is answered with, in place of the node."""
        self.connections = 0
        self.closed = False
        """Whether everything is reset at once."""
        self.turned_away = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()

    async def passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, self.connections = self.connections, self.connections + 1
        if self.closed:
            self.turned_away.set()
            return _reset(writer)
        begin = await reader.readuntil(b"\r\n\r\n")
        if self.upgrades is not None and b"upgrade: websocket" in begin.lower():
            writer.write(b"HTTP/1.1 %d No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % self.upgrades)
            writer.close()
            return None
        parts = urlsplit(self.to)
        there, back = await asyncio.open_connection(parts.hostname, parts.port)
        back.write(begin)
        self._open |= {writer, back}
        forth = asyncio.create_task(_copy(reader, back))
        try:
            await _copy(there, writer, self.cuts[number] if number < len(self.cuts) else None)
        finally:
            forth.cancel()
            self._open -= {writer, back}
            for each in (writer, back):
                _reset(each)

    def cut(self) -> None:
        """Reset every connection, and every one that comes."""
        self.closed = True
        for writer in tuple(self._open):
            _reset(writer)


async def _copy(source: asyncio.StreamReader, to: asyncio.StreamWriter, most: int | None = None) -> None:
    passed = 0
    with contextlib.suppress(OSError):
        while data := await source.read(65_536):
            room = None if most is None else most - passed
            to.write(data[:room])
            await to.drain()
            passed += len(data)
            if most is not None and passed >= most:
                return


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def wire_to(url: str, *cuts: int | None) -> AsyncIterator[tuple[str, CuttableWire]]:
    wire = CuttableWire(url, list(cuts))
    tasks: set[asyncio.Task[None]] = set()

    async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            await wire.passed(reader, writer)
        writer.close()

    server = await asyncio.start_server(taken, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", wire
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
