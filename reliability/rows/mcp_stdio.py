"""The official MCP client, `handrail mcp serve`, and a server of the official package behind it, all over stdio."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct

from reliability.processes import handrail
from reliability.rows.mcp_parts import MODERN, approve, proxy_config, run_client, serve_shop_stdio
from reliability.stage import Stage


class McpStdioRow(Struct, frozen=True):
    name: str
    era: str
    killed: str = (
        "client, proxy and server: at each message between them, either end; the proxy before and after each write to "
        "the journal, the server before and after the payment"
    )
    preload: tuple[str, ...] = ()

    def play(self, stage: Stage) -> None:
        behind = stage.stdio_wire("proxy", "server", serve_shop_stdio, stage.folder)
        config = proxy_config(stage.folder, command=behind)
        approve(config, stage.environ)
        words = "--config", str(config), "mcp", "serve", "--rule", "allow shop:pay"
        proxy = stage.stdio_wire("client", "proxy", handrail, *words)
        if not stage.start("client", run_stdio_client, stage.folder, self.era, proxy).wait():
            raise TimeoutError("the client did not end")
        for role in ("proxy", "server"):  # they end with the client: wait, so that the next life does not meet them
            process = stage.find(role)
            if process is not None and not process.wait(20):
                raise TimeoutError(f"the {role} did not end with its client")


def run_stdio_client(folder: Path, era: str, command: list[str]) -> None:
    from mcp import StdioServerParameters

    asyncio.run(run_client(folder, era, StdioServerParameters(command=command[0], args=command[1:], cwd=folder)))


STDIO = McpStdioRow("MCP proxy over stdio, 2026-07-28", MODERN)
STDIO_2025 = McpStdioRow("MCP proxy over stdio, 2025-11-25", "legacy")
