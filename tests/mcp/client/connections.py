"""What the tests of connections share: servers, connections that are closed again, and a pulse of the loop."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handrail.mcp.client.connection import McpConnection
from handrail.mcp.values import Endpoint, HttpEndpoint, McpBounds, McpLinkTerms, StdioEndpoint
from tests import prestarted
from tests.processes import kept_waiting

SERVERS = Path(__file__).parent.parent / "servers"
ERAS = ("modern", "legacy")
QUICK = McpBounds(settle=0.01, start=20)
PATIENCE = 20
"""Seconds in which anything is answered at all, on a machine that does other things too."""


def raw(*args: str, env: dict[str, str] | None = None) -> StdioEndpoint:
    return StdioEndpoint(
        command=sys.executable, args=("-I", "-S", str(SERVERS / "raw_stdio_server.py"), *args), env=env or {}
    )


def sdk() -> StdioEndpoint:
    python, *rest = prestarted.command()
    return StdioEndpoint(command=python, args=(*rest, str(SERVERS / "sdk_server.py"), "stdio"))


@dataclass
class ConnectionNotices:
    """What a connection told of."""

    told: list[str] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, what: str) -> None:
        self.told.append(what)
        self._changed.set()

    async def until(self, what: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while what not in self.told:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def connected(endpoint: Endpoint, **options: Any) -> AsyncIterator[McpConnection]:
    """A connection that is made again at once."""
    given = {name: options.pop(name) for name in ("bounds", "era", "asking", "sign_in") if name in options}
    terms = McpLinkTerms(**{"bounds": QUICK, **given})
    connection = McpConnection("srv", endpoint, terms, **{"chance": lambda: 0.0, **options})
    try:
        await connection.open()
        yield connection
    finally:
        await connection.aclose()


async def call(connection: McpConnection, name: str, /, *, resend: bool = False, **arguments: Any) -> Any:
    """The text of a tool's answer, or what it answered with instead."""
    async with asyncio.timeout(PATIENCE):
        result = await connection.use(lambda client: client.call_tool(name, arguments), resend=resend)
    texts = [block.text for block in result.content if block.type == "text"]
    return texts[0] if texts else result.structured_content


@asynccontextmanager
async def web_of_sdk() -> AsyncIterator[tuple[HttpEndpoint, asyncio.subprocess.Process]]:
    """The SDK's own server over HTTP, in a process that can be killed."""
    process = await asyncio.create_subprocess_exec(
        *prestarted.command(), str(SERVERS / "sdk_server.py"), "http", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        yield HttpEndpoint(url=f"http://127.0.0.1:{port}/mcp"), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()  # to the end of what it says: it ends a moment after the client that stands for it


@dataclass
class LoopPulse:
    longest: float = 0.0
    """Seconds for which the loop did nothing else though there was a processor for it."""


@asynccontextmanager
async def pulse() -> AsyncIterator[LoopPulse]:
    found = LoopPulse()
    loop = asyncio.get_running_loop()

    async def beat() -> None:
        while True:
            before = loop.time() - kept_waiting()
            await asyncio.sleep(0.005)
            found.longest = max(found.longest, loop.time() - kept_waiting() - before - 0.005)

    task = loop.create_task(beat())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.wait({task})


def gone(pid: int) -> bool:
    """Whether there is no such process, a zombie being one."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
