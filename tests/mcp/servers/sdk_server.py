"""A server on the SDK, whose tools do what breaks it: `sdk.py stdio`, or `sdk.py http` that prints its port."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("sdk")


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool(structured_output=False)
def half() -> str:
    """Half of a surrogate pair, which the SDK cannot write."""
    return "a\ud83db"


@server.tool()
def leave() -> str:
    raise SystemExit(0)


@server.tool()
def dawdle(begun: str, mark: str) -> str:
    """A plain function that cannot be stopped: it goes on after its caller has gone."""
    Path(begun).touch()
    while not Path(mark).exists():
        time.sleep(0.01)
    Path(mark).write_text("finished anyway")
    return "done"


def note(mark: str) -> None:
    if mark:
        Path(mark).touch()


@server.tool()
async def wait(begun: str, given_up: str = "") -> str:
    await asyncio.to_thread(Path(begun).touch)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        note(given_up)
    return "never"


@server.tool()
async def grow(name: str, context: Context[Any]) -> str:
    """One more tool, of which clients of both eras are told."""
    server.add_tool(lambda: "here", name=name, description="new")
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return "grown"


@server.tool()
def big(size: int) -> str:
    return "x" * size


async def listen() -> None:
    door = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{door.getsockname()[1]}\n")
    sys.stdout.flush()
    app = server.streamable_http_app(host="127.0.0.1")
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[door])


if __name__ == "__main__":
    if sys.argv[1] == "http":
        asyncio.run(listen())
    else:
        server.run("stdio")
