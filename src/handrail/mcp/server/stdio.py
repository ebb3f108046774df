"""Serving over standard input and output.

Nothing but the protocol gets to standard output: while it serves, a `print` of a tool, or of a program that a
tool starts, goes to standard error, and reading standard input gives nothing. The loop waits for input, and a thread
that nobody has to join for room in a full output: a client that neither writes nor reads cannot hold up the end.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import queue
import select
import signal
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from handrail.core.errors import MissingExtra
from handrail.mcp.server.definition import FirstWords, McpServerDefinition

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

LONGEST = 64 * 1024 * 1024
"""Bytes of one message of a client."""
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_CHUNK = 64 * 1024
_ENDS = (signal.SIGTERM,)

logger = logging.getLogger(__name__)


async def serve_stdio(served: McpServerDefinition) -> None:
    """Serve until standard input ends, or SIGTERM comes; calls under way are cancelled then.

    Raises:
        MissingExtra: The MCP library is not installed.
    """
    with open_stdio() as wire:
        await wire.serve(served)


@contextmanager
def open_stdio() -> Iterator[StdioWire]:
    """Take standard input and output for the protocol alone.

    Raises:
        MissingExtra: The MCP library is not installed.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("serving MCP", "mcp")
    with _wire() as (source, sink):
        yield StdioWire(source, sink)


class StdioWire:
    """The client at the other end of two descriptors."""

    def __init__(self, source: int, sink: int) -> None:
        self._sink = sink
        self._first: tuple[bytes | None, ...] = ()
        """What was read already, to know who is there."""
        self._lines = _InputLines(source)

    async def first_words(self) -> FirstWords:
        """Reads who the client is from its first message, which is answered all the same."""
        self._first = (await self._lines.next(),)
        return _first_words(self._first[0] or b"")

    async def serve(self, served: McpServerDefinition) -> None:
        import anyio

        with anyio.CancelScope() as scope, _ended_by_signal(scope.cancel):
            await self.serve_to_end(served)

    async def serve_to_end(self, served: McpServerDefinition) -> None:
        """Serve until there is no more to read."""
        import anyio

        from handrail.mcp.server.build import build_mcp_server
        from handrail.mcp.server.tasks.store import TaskStore

        server = build_mcp_server(served, tasks=TaskStore())
        incoming, received = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        outgoing, to_send = anyio.create_memory_object_stream["SessionMessage"](0)
        writer = _LineWriter(self._sink)
        async with anyio.create_task_group() as group:
            group.start_soon(self._receive, incoming, writer)
            group.start_soon(_send, to_send, writer)
            await server.run(received, outgoing, server.create_initialization_options())
            group.cancel_scope.cancel()

    async def _receive(self, incoming: MemoryObjectSendStream[SessionMessage | Exception], writer: _LineWriter) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        async with incoming:
            while (line := await self._next()) is not None:
                if not line.strip():
                    continue
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    await writer.write(_not_understood(line))
                    continue
                await incoming.send(SessionMessage(message))

    async def _next(self) -> bytes | None:
        if self._first:
            (line,), self._first = self._first, ()
            return line
        return await self._lines.next()


def _first_words(line: bytes) -> FirstWords:
    """Capabilities are in the handshake, or go with each request."""
    try:
        read = json.loads(line)
        params = read.get("params") or {}
        found = params.get("capabilities") or (params.get("_meta") or {}).get(_CAPABILITIES)
    except (ValueError, AttributeError, RecursionError):
        return FirstWords()
    return FirstWords(found if isinstance(found, dict) else {}, read.get("method") == "initialize")


async def _send(to_send: MemoryObjectReceiveStream[SessionMessage], writer: _LineWriter) -> None:
    async with to_send:
        async for each in to_send:
            await writer.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode())


class _InputLines:
    """The lines of a descriptor, which the loop waits for; what is always ready, as a file, is read at once."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._lines: deque[bytes] = deque()
        self._parts: list[bytes] = []
        """Of a line whose end has not come. Each byte is looked at once: a long message costs what it is long."""
        self._size = 0
        self._ended = False

    async def next(self) -> bytes | None:
        """The next line without its end; None if there is no more."""
        while not self._lines:
            if self._ended:
                return None
            await self._readable()
            self._take(_chunk(self._source))
        return self._lines.popleft()

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(self._source, _finish, ready)
        except OSError:  # nobody has to wait for this one
            return
        try:
            await ready
        finally:
            loop.remove_reader(self._source)

    def _take(self, chunk: bytes) -> None:
        head, *rest = chunk.split(b"\n")
        self._parts.append(head)
        self._size += len(head)
        for piece in rest:
            self._lines.append(b"".join(self._parts))
            self._parts, self._size = [piece], len(piece)
        if self._size > LONGEST:
            logger.error("a message of more than %d bytes came in; no more is read, and the server ends", LONGEST)
        elif chunk:
            return
        elif self._size:
            self._lines.append(b"".join(self._parts))
        self._ended = True


def _chunk(source: int) -> bytes:
    try:
        return os.read(source, _CHUNK)
    except OSError:
        return b""


class _LineWriter:
    """Writes whole lines, one after the other: at once where there is room for one, and else in a thread that may wait
    for the reader as long as it likes."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._waiting = 0
        """Lines that the thread has yet to write."""
        self._room = select.poll()
        if _tells_room(sink):
            self._room.register(sink, select.POLLOUT)
        threading.Thread(target=self._work, name="mcp-stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        line += b"\n"
        if not self._waiting and len(line) <= select.PIPE_BUF and self._room.poll(0):
            with suppress(OSError):  # the client is gone; its input ends too, and that ends the serving
                os.write(self._sink, line)
            return
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting += 1
        self._jobs.put((line, done))
        await done

    def _work(self) -> None:
        broken = False
        while True:
            line, done = self._jobs.get()
            rest = memoryview(line)
            while rest and not broken:
                try:
                    rest = rest[os.write(self._sink, rest) :]
                except OSError:
                    broken = True
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._written, done)

    def _written(self, done: asyncio.Future[None]) -> None:
        self._waiting -= 1
        _finish(done)


def _tells_room(sink: int) -> bool:
    """Whether a descriptor that can be written takes `PIPE_BUF` bytes without a wait: pipes and sockets do."""
    mode = os.fstat(sink).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _not_understood(line: bytes) -> bytes:
    """A protocol error for what is no message, under its id if it has one that can be read."""
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        read = None
    id = read.get("id") if isinstance(read, dict) else None
    usable = isinstance(id, int | str) and not isinstance(id, bool)
    error = {"code": -32700 if read is None else -32600, "message": "this is not a message of the protocol"}
    return json.dumps({"jsonrpc": "2.0", "id": id if usable else None, "error": error}).encode()


@contextmanager
def _wire() -> Iterator[tuple[int, int]]:
    """Standard input and output for us alone. The copies stay open: a thread may still wait for one of them."""
    source, sink = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1))
    sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield source, sink
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(sink, 1)


@contextmanager
def _ended_by_signal(end: Callable[[], None]) -> Iterator[None]:
    """Where a program may say what its signals do: in its main thread."""
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    for number in _ENDS:
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in _ENDS:
            loop.remove_signal_handler(number)
