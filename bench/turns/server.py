"""A mock of OpenAI's Chat Completions that costs next to nothing. It is not a server for anything else.

    python -m bench.turns.server [core]

The first part of the path names the job, so that no body has to be parsed; which
reply comes next is told by the number of results in the request. It prints its
port. `GET /stamps` gives, and forgets, when the last argument byte of each call of
a paced stream was written, in nanoseconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator

from bench.turns.replies import Piece, Script, plain
from bench.turns.work import JOBS


class Service:
    """What all connections share."""

    def __init__(self, *, keep: bool = False) -> None:
        """With `keep`, every body is kept: for tests."""
        self.stamps: list[int] = []
        self.bodies: list[bytes] | None = [] if keep else None
        self._scripts: dict[bytes, Script] = {}

    def script(self, name: bytes) -> Script:
        script = self._scripts.get(name)
        if script is None:
            script = self._scripts[name] = Script(JOBS[name.decode()])
        return script

    async def start(self) -> tuple[asyncio.Server, int]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(self), "127.0.0.1", 0, backlog=1024)
        port: int = server.sockets[0].getsockname()[1]
        return server, port


class Connection(asyncio.Protocol):
    """Requests on one connection, one after another."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._buffer = bytearray()
        self._needed = 0
        """Bytes of the request that is arriving, once its head was read."""
        self._head = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._needed and not self._read_head():
            return
        if len(self._buffer) >= self._needed:
            request = bytes(self._buffer[: self._needed])
            del self._buffer[: self._needed]
            self._needed = 0
            self._answer(request[: self._head], request[self._head :])

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        self._head = end + 4
        head = bytes(self._buffer[: self._head]).lower()
        start = head.find(b"content-length:")
        size = 0 if start < 0 else int(head[start + 15 : head.index(b"\r\n", start)])
        self._needed = self._head + size
        return True

    def _answer(self, head: bytes, body: bytes) -> None:
        assert self._transport is not None
        service, path = self._service, head.split(b" ", 2)[1]
        if path == b"/stamps":
            self._transport.write(plain(json.dumps(service.stamps).encode()))
            service.stamps.clear()
            return
        if service.bodies is not None:
            service.bodies.append(body)
        script = service.script(path.split(b"/", 2)[1])
        turn = script.turn(body.count(b'"tool_call_id"'))
        if b'"stream":true' not in body and b'"stream": true' not in body:
            self._transport.write(script.whole[turn])
        elif script.job.pace:
            self._write_paced(iter(script.pieces[turn]), script.job.pace)
        else:
            self._transport.write(script.streamed[turn])

    def _write_paced(self, pieces: Iterator[Piece], pace: float) -> None:
        piece = next(pieces, None)
        if piece is None or self._transport is None or self._transport.is_closing():
            return
        if piece.ends_call:
            self._service.stamps.append(time.monotonic_ns())
        self._transport.write(piece.data)
        asyncio.get_running_loop().call_later(pace, self._write_paced, pieces, pace)


async def main(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})
    server, port = await Service().start()
    print(port, flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else None))
