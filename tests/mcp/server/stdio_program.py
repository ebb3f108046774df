"""A program that serves tools of its own over standard input and output. Its first argument is a folder to write to."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handrail.core.events import RunFinished
from handrail.core.invocation import Invocation
from handrail.mcp.server.stdio import serve_stdio
from handrail.mcp.values import RemoteResource, ResourceBody
from handrail.tools.tool import Tool, tool
from tests.mcp.server.server_setup import scene

FOLDER = Path(sys.argv[1])


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
def noisy() -> str:
    """Write to standard output in every way there is."""
    sys.stdout.write("print\n")
    sys.stdout.flush()
    os.write(1, b"descriptor\n")
    subprocess.run(["echo", "child"], check=True)
    return "quiet"


@tool
def curious() -> str:
    """Read standard input."""
    return f"read {sys.stdin.read()!r} and {os.read(0, 100)!r}"


@tool
async def leave() -> str:
    """Leave the program."""
    sys.exit(3)


@tool
def odd() -> str:
    """Half of a pair."""
    return "\ud800"


@tool(output_schema=None)
def flood() -> Any:
    """Too much."""
    return "x" * 30_000_000


BEGUN, ENDED = asyncio.Event(), asyncio.Event()


async def wait(invocation: Invocation) -> str:
    """Say that it waits, wait for ever, and note how that ended."""
    invocation.progress(1, None, "waiting")
    BEGUN.set()
    try:
        await asyncio.Event().wait()
    finally:
        (FOLDER / "ended").touch()
        ENDED.set()
    return ""


@tool
async def begun() -> str:
    """Return when a call of `wait` has begun."""
    await BEGUN.wait()
    return "begun"


@tool
async def ended() -> str:
    """Return when a call of `wait` has ended."""
    await ENDED.wait()
    return "ended"


@tool(tags=("long",))
async def slow(text: str) -> str:
    """Say it later, where the client can have tasks."""
    return text


@tool(side_effects=True)
def put(thing: str) -> str:
    """Put a thing into the folder."""
    (FOLDER / thing).touch()
    return "done"


class UnsendableSource:
    """A source whose words cannot be written in UTF-8."""

    async def list(self) -> Sequence[RemoteResource]:
        return [RemoteResource(uri="odd://1", name="\udcff", description="\ud800")]

    async def read(self, uri: str) -> Sequence[ResourceBody] | None:
        return [ResourceBody(uri=uri, text="\ud800 text")] if uri == "odd://1" else None


async def main() -> None:
    waiting = Tool.from_function(wait, style="invocation", schema={"type": "object"}, tags=("long",))
    served = scene(
        echo, noisy, curious, leave, odd, flood, waiting, begun, ended, slow, put, resources=(UnsendableSource(),)
    )
    await serve_stdio(served.served)
    if "speak" in sys.argv:
        sys.stdout.write("after\n")
    (FOLDER / "finished").write_text(str(len(served.recorded(RunFinished))))


if __name__ == "__main__":
    asyncio.run(main())
