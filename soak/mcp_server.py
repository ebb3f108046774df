"""The server that `soak.mcp` uses and kills: `python -m soak.mcp_server stdio|http modern|legacy LEDGER [PORT]`.

Each effect is one line in the ledger, whoever asks for it. What becomes of a call besides is in its arguments:
the program may die before it, after it, or in the middle of the answer, or never answer at all.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.mcp.servers import raw_http_server, raw_stdio_server

FATES = ("fine", "dies before", "dies after", "dies answering", "says nothing", "lists anew")
_SCHEMA = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "fate": {"enum": list(FATES)}},
    "required": ["number", "fate"],
}
TOOLS = [
    {"name": "pay", "inputSchema": _SCHEMA},
    {"name": "put", "inputSchema": _SCHEMA, "annotations": {"readOnlyHint": False, "idempotentHint": True}},
    {"name": "look", "inputSchema": _SCHEMA, "annotations": {"readOnlyHint": True}},
]


class Ledger:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, tool: str, number: int) -> None:
        os.write(self._file, f"{tool} {number}\n".encode())


class Program(raw_stdio_server.RawStdioServer):
    """Over standard input and output."""

    def __init__(self, era: str, ledger: Ledger) -> None:
        super().__init__(era, "", None)
        self._ledger = ledger

    def listed(self, id: Any, params: dict[str, Any]) -> None:
        self.answer(id, {"tools": TOOLS, **self.cached()})

    def pay(self, id: Any, given: dict[str, Any]) -> None:
        self._do("pay", id, given)

    def put(self, id: Any, given: dict[str, Any]) -> None:
        self._do("put", id, given)

    def look(self, id: Any, given: dict[str, Any]) -> None:
        self._do("look", id, given)

    def _do(self, tool: str, id: Any, given: dict[str, Any]) -> None:
        if given["fate"] == "dies before":
            os._exit(3)
        self._ledger.note(tool, given["number"])
        match given["fate"]:
            case "dies after":
                os._exit(3)
            case "dies answering":
                self.raw(b'{"jsonrpc":"2.0","id":' + json.dumps(id).encode() + b',"result":{"content":[')
                os._exit(3)
            case "lists anew":
                self.tell("notifications/tools/list_changed")
            case "says nothing":
                return
        self.text(id, str(given["number"]))


class Web(raw_http_server.RawHttpServer):
    """Over HTTP."""

    ledger: Ledger

    async def hear(self, method: str, id: Any, params: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if method != "tools/list":
            return await super().hear(method, id, params, writer)
        more = {"ttlMs": 0, "cacheScope": "private"} if self.modern else {}
        await raw_http_server.send(writer, 200, raw_http_server.JSON, self.result(id, {"tools": TOOLS, **more}))

    async def pay(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await self._do("pay", id, given, writer)

    async def put(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await self._do("put", id, given, writer)

    async def look(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await self._do("look", id, given, writer)

    async def _do(self, tool: str, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if given["fate"] == "dies before":
            os._exit(3)
        self.ledger.note(tool, given["number"])
        match given["fate"]:
            case "dies after":
                os._exit(3)
            case "dies answering":
                await self.half_a_body(id, given, writer)
            case "says nothing":
                await self.silent(id, given, writer)
            case "lists anew":  # over this wire, the session is forgotten instead
                self.sessions.clear()
        await raw_http_server.send(writer, 200, raw_http_server.JSON, self.text(id, str(given["number"])))


async def _serve(era: str, ledger: Ledger, port: int) -> None:
    served = Web(era == "modern", port=port)
    served.ledger = ledger
    await served.start()
    await asyncio.get_running_loop().create_future()


def main() -> None:
    kind, era, path, *rest = sys.argv[1:]
    ledger = Ledger(Path(path))
    if kind == "stdio":
        Program(era, ledger).run()
    else:
        asyncio.run(_serve(era, ledger, int(rest[0])))


if __name__ == "__main__":
    main()
