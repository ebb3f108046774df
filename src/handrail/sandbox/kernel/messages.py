"""What crosses between the host and an interpreter, and how little of it is believed.

The interpreter belongs to the code that it runs. So what it sends is bounded, read strictly, and fits the moment
or ends it; and what it is sent is JSON that was checked before.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.framing import FrameError, FrameSplitter
from handrail.core.jsontext import JSONTextError, parse_lightly, without_surrogates
from handrail.sandbox.kernel.program import MAX_VALUES, NAMES, to_json

ENVELOPE = 2**16
"""Bytes of a frame beside the value that it carries."""
_VALUES = MAX_VALUES + 2 * NAMES


class InterpreterReady(Struct, frozen=True, tag="ready", forbid_unknown_fields=True):
    """The interpreter has started."""


class CellHostCall(Struct, frozen=True, tag="call", forbid_unknown_fields=True):
    """A cell asks the host, and waits."""

    cell: int
    call: int
    name: str
    value: Any


class VariableBound(Struct, frozen=True, tag="bound", forbid_unknown_fields=True):
    """A variable was bound, or why not."""

    cell: int
    error: str


class CellDone(Struct, frozen=True, tag="done", forbid_unknown_fields=True):
    """A cell has ended."""

    cell: int
    error: str
    memory: bool
    values: dict[str, Any]
    names: dict[str, str]


Said = InterpreterReady | CellHostCall | VariableBound | CellDone


def read(body: bytes) -> Said:
    """Decodes what an interpreter said.

    Raises:
        FrameError: It is none of these.
    """
    try:
        said: Said = msgspec.convert(
            parse_lightly(body, max_values=_VALUES), InterpreterReady | CellHostCall | VariableBound | CellDone
        )
    except (JSONTextError, msgspec.ValidationError) as error:
        raise FrameError(f"what it said could not be read: {error}") from error
    return said


def setup(memory_bytes: int, message_bytes: int, lockdown: str) -> bytes:
    """The first frame; `lockdown` is Python that the interpreter runs before anything else."""
    return _frame(to_json({"memory_bytes": memory_bytes, "message_bytes": message_bytes, "lockdown": lockdown}))


def cell(number: int, code: bytes, peek: tuple[str, ...], seed: int) -> bytes:
    """`code` is its text as JSON."""
    told = (number, code, to_json(peek), seed)
    return _frame(b'{"type":"cell","cell":%d,"code":%b,"peek":%b,"seed":%d}' % told)


def put(number: int, name: str, value: bytes) -> bytes:
    return _frame(b'{"type":"put","cell":%d,"name":%b,"value":%b}' % (number, to_json(name), value))


def answer(number: int, call: int, value: bytes) -> bytes:
    return _frame(b'{"type":"answer","cell":%d,"call":%d,"value":%b}' % (number, call, value))


def failure(number: int, call: int, kind: str, message: str) -> bytes:
    said = (number, call, to_json(without_surrogates(kind)), to_json(without_surrogates(message)))
    return _frame(b'{"type":"raise","cell":%d,"call":%d,"kind":%b,"message":%b}' % said)


def _frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


_CHUNK = 2**18


class InterpreterHungUp(Exception):
    """The interpreter has hung up."""


class InterpreterChannel:
    def __init__(self, sock: socket.socket, message_bytes: int) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._frames = FrameSplitter(message_bytes + ENVELOPE)
        self._bodies: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None

    async def receive(self) -> Said:
        """The next message of the interpreter.

        Raises:
            InterpreterHungUp: There will be no more frames.
            FrameError: What came is no frame, or too large, or not what an interpreter says.
        """
        while not self._bodies:
            self._waiting = self._loop.create_future()
            self._loop.add_reader(self._sock, self._read)
            try:
                await self._waiting
            finally:
                self._loop.remove_reader(self._sock)
        return read(self._bodies.popleft())

    async def send(self, data: bytes) -> None:
        """Send a frame to the interpreter.

        Raises:
            InterpreterHungUp: It has hung up.
        """
        try:
            await self._loop.sock_sendall(self._sock, data)
        except OSError as error:
            raise InterpreterHungUp from error

    def _read(self) -> None:
        assert self._waiting is not None
        if self._waiting.done():
            return
        try:
            data = self._sock.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        try:
            self._bodies.extend(self._frames.feed(data))
        except FrameError as error:
            self._waiting.set_exception(error)
            return
        if not data:
            self._waiting.set_exception(InterpreterHungUp())
        elif self._bodies:
            self._waiting.set_result(None)
