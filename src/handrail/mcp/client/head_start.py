"""Starts a server's program before the official package is imported: each takes a second, and they overlap."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from handrail.core.child_process import PASSED_ON, ProgramProtocol, end_program, kept_variables, start_program
from handrail.mcp.values import Endpoint, StdioEndpoint

P = TypeVar("P", bound=ProgramProtocol)


async def start_server(
    endpoint: StdioEndpoint, protocol: P, environ: Mapping[str, str] = os.environ
) -> asyncio.SubprocessTransport:
    """Start the program of a server.

    Raises:
        OSError: It could not be started.
        ValueError: Nor could any program of this name.
    """
    env = {**kept_variables(PASSED_ON, environ), **endpoint.env}
    command = (endpoint.command, *endpoint.args)
    transport, _ = await start_program(lambda: protocol, command, env=env, cwd=endpoint.cwd)
    return transport


async def head_start(endpoint: Endpoint) -> StartedServer | None:
    """Start it now, if something is to be gained. One that cannot be started is tried again by whoever says why."""
    if not isinstance(endpoint, StdioEndpoint) or "mcp" in sys.modules:
        return None
    kept = _KeptWords()
    try:
        return StartedServer(await start_server(endpoint, kept), kept)
    except (OSError, ValueError):
        return None


class StartedServer:
    """A program that runs, and to which nobody has listened yet."""

    def __init__(self, transport: asyncio.SubprocessTransport, kept: _KeptWords) -> None:
        self._transport = transport
        self._kept = kept

    def hand_over(self, listener: ProgramProtocol) -> asyncio.SubprocessTransport:
        """Let somebody hear all that it said and will say."""
        self._kept.hand_over(self._transport, listener)
        return self._transport

    async def end(self) -> None:
        """End what nobody will listen to."""
        await end_program(self._transport, self._kept, patience=0, grace=0, flush=0)


class _KeptWords(ProgramProtocol):
    """Keeps what asyncio tells of a program for whoever comes to hear it."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[tuple[str, tuple[Any, ...]]] = []
        self._listener: ProgramProtocol | None = None

    def hand_over(self, transport: asyncio.SubprocessTransport, listener: ProgramProtocol) -> None:
        listener.connection_made(transport)
        for what, facts in self._kept:
            getattr(listener, what)(*facts)
        self._kept.clear()
        self._listener = listener

    def _hear(self, what: str, *facts: Any) -> None:
        if self._listener is None:
            self._kept.append((what, facts))
        else:
            getattr(self._listener, what)(*facts)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._hear("pipe_data_received", fd, data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        super().pipe_connection_lost(fd, exc)
        self._hear("pipe_connection_lost", fd, exc)

    def process_exited(self) -> None:
        super().process_exited()
        self._hear("process_exited")

    def pause_writing(self) -> None:
        self._hear("pause_writing")

    def resume_writing(self) -> None:
        self._hear("resume_writing")
