"""The servers that bench_mcp.py starts: one tool, over standard input and output.

`sdk` is made with the official package, and takes a second of a processor to start. `light` is not, and
waits as long as it is told: of those, several can start at once without waiting for a processor.
"""

from __future__ import annotations

import json
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


def sdk() -> None:
    from mcp.server.mcpserver import MCPServer
    from mcp_types import ToolAnnotations

    server = MCPServer("bench")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> str:
        return str(a + b)

    server.run("stdio")


if __name__ == "__main__":
    sdk() if sys.argv[1] == "sdk" else light(float(sys.argv[1]))
