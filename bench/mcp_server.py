"""The servers that bench_mcp.py starts: one tool, over standard input and output, or over HTTP.

`sdk` and `http` are made with the official package, and take a second of a processor to start; `http` prints its port.
A number is a light server that waits so many seconds: of those, several can start at once without waiting for a
processor.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import time
from typing import Any

TOOL = {"name": "add", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
ANSWERS: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "light", "version": "1"},
    },
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "3"}]},
}


def light(delay: float) -> None:
    time.sleep(delay)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        known = ANSWERS.get(request["method"])
        answer = {"result": known} if known else {"error": {"code": -32601, "message": "no such method"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}) + "\n")
        sys.stdout.flush()


def sdk() -> Any:
    from mcp.server.mcpserver import MCPServer
    from mcp_types import ToolAnnotations

    server = MCPServer("bench")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> str:
        return str(a + b)

    return server


def http() -> None:
    import uvicorn

    with socket.create_server(("127.0.0.1", 0)) as door:
        door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as uvicorn's own sockets have it
        sys.stdout.write(f"{door.getsockname()[1]}\n")
        sys.stdout.flush()
        logging.disable(logging.INFO)
        app = sdk().streamable_http_app(host="127.0.0.1")
        asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[door]))


if __name__ == "__main__":
    match sys.argv[1]:
        case "sdk":
            sdk().run("stdio")
        case "http":
            http()
        case delay:
            light(float(delay))
