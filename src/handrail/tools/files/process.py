"""Runs one program to its end: no shell, its own process group, a bound on what it may say.

It knows nothing of tools. However it is left, the whole group has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from handrail.core.child_process import ProgramProtocol, end_program, start_program

STDERR_KEPT = 4096
"""Bytes of the end of stderr; the reason of a failure stands last."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    code: int
    """The exit code; a negative one is the signal that ended it."""
    output: bytes
    errors: bytes
    overflowed: bool
    """Whether it wrote more than the limit, and was stopped for that."""


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
    transport, heard = await start_program(
        lambda: _OutputCollector(limit),
        argv,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
    )
    try:
        if stdin is not None:
            _feed(transport, stdin)
        await heard.exited_or_overflowed.wait()
    finally:
        ending = end_program(transport, heard, patience=0, grace=grace, flush=grace)
        await asyncio.shield(asyncio.get_running_loop().create_task(ending))
    return ProgramResult(transport.get_returncode() or 0, bytes(heard.output), bytes(heard.errors), heard.overflowed)


class _OutputCollector(ProgramProtocol):
    """Keeps the beginning of stdout and the end of stderr."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self.output = bytearray()
        self.errors = bytearray()
        self.overflowed = False
        self.exited_or_overflowed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.errors = (self.errors + data)[-STDERR_KEPT:]
            return
        self.output += data[: self._limit - len(self.output) + 1]
        if len(self.output) > self._limit:
            self.overflowed = True
            self.exited_or_overflowed.set()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited_or_overflowed.set()


def _feed(transport: asyncio.SubprocessTransport, stdin: bytes) -> None:
    pipe = transport.get_pipe_transport(0)
    assert isinstance(pipe, asyncio.WriteTransport)
    pipe.write(stdin)
    pipe.close()
