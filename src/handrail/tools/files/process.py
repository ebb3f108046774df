"""Runs one program to its end: no shell, its own process group, a bound on what it may say.

It knows nothing of tools. However it is left, the whole group has ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from handrail.core.timeouts import time_limit

STDERR_KEPT = 4096
"""Bytes of the end of stderr; the reason of a failure stands last."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    code: int
    """Of its exit; a negative one is the signal that ended it."""
    output: bytes
    errors: bytes
    overflowed: bool
    """It wrote more than the limit and was stopped for that."""


async def run_program(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    stdin: bytes | None = None,
    limit: int,
    grace: float,
) -> ProgramResult:
    """Run a program and give what it wrote. Cancelled, it sends SIGTERM and after `grace` seconds SIGKILL.

    Raises:
        OSError: The program could not be started.
    """
    loop = asyncio.get_running_loop()
    spawning = loop.subprocess_exec(
        lambda: _OutputCollector(limit),
        *argv,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
    )
    # Cancelled halfway, asyncio would end only the program and not its group: let it finish, then end them all.
    started = loop.create_task(spawning)
    try:
        transport, heard = await asyncio.shield(started)
        if stdin is not None:
            _feed(transport, stdin)
        await heard.exited_or_overflowed.wait()
    finally:
        await asyncio.shield(loop.create_task(_end(started, grace)))
    return ProgramResult(transport.get_returncode() or 0, bytes(heard.output), bytes(heard.errors), heard.overflowed)


class _OutputCollector(asyncio.SubprocessProtocol):
    """Keeps the beginning of stdout and the end of stderr."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open = {1, 2}
        self.output = bytearray()
        self.errors = bytearray()
        self.overflowed = False
        self.exited = asyncio.Event()
        self.exited_or_overflowed = asyncio.Event()
        self.silent = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.errors = (self.errors + data)[-STDERR_KEPT:]
            return
        self.output += data[: self._limit - len(self.output) + 1]
        if len(self.output) > self._limit:
            self.overflowed = True
            self.exited_or_overflowed.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.silent.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.exited_or_overflowed.set()


def _feed(transport: asyncio.SubprocessTransport, stdin: bytes) -> None:
    pipe = transport.get_pipe_transport(0)
    assert isinstance(pipe, asyncio.WriteTransport)
    pipe.write(stdin)
    pipe.close()


async def _end(started: asyncio.Task[tuple[asyncio.SubprocessTransport, _OutputCollector]], grace: float) -> None:
    """Leave no process of the group behind, and keep what it had already written."""
    await asyncio.wait([started])
    if started.exception() is not None:
        return  # nothing runs, and the caller has the reason
    transport, heard = started.result()
    group = transport.get_pid()
    try:
        if not heard.exited.is_set():
            _signal(group, signal.SIGTERM)
            await _within(heard.exited, grace)
    finally:
        _signal(group, signal.SIGKILL)
    await heard.exited.wait()
    # A child that left the group may hold the pipes open for as long as it likes.
    await _within(heard.silent, grace)
    transport.close()


async def _within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with time_limit(seconds):
            await event.wait()
    except TimeoutError:
        return


def _signal(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return  # it has ended
