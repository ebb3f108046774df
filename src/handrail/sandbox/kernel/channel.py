"""Frames to and from an interpreter. It reads only while somebody waits for a frame, so memory stays bounded."""

from __future__ import annotations

import asyncio
import socket
from collections import deque

from handrail.core.framing import FrameError, FrameSplitter
from handrail.sandbox.kernel.messages import ENVELOPE, Said, read

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
        """
        Raises:
            Lost: There will be no more frames.
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
        """
        Raises:
            Lost: It has hung up.
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
