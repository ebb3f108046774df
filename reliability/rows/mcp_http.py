"""The official MCP client, `handrail mcp serve --http`, and a server of the official package behind it, over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct

from reliability.processes import handrail
from reliability.rows.mcp_parts import MODERN, approve, proxy_config, run_client, serve_shop_http
from reliability.stage import Stage


class McpHttpRow(Struct, frozen=True):
    name: str
    era: str
    killed: str = (
        "client, proxy and server: at each message between them, either end; the proxy before and after each write to "
        "the journal, the server before and after the payment"
    )
    preload: tuple[str, ...] = ()

    def play(self, stage: Stage) -> None:
        """Proxy and server outlive their client; the dead ones are started again."""
        behind = stage.tcp_wire("proxy", "server", stage.serve("server", serve_shop_http, stage.folder))
        config = proxy_config(stage.folder, url=f"http://127.0.0.1:{behind}/mcp")
        approve(config, stage.environ)
        port = stage.tcp_wire("client", "proxy", stage.serve("proxy", serve_proxy, str(config)))
        if not stage.start("client", run_http_client, stage.folder, self.era, port).wait():
            raise TimeoutError("the client did not end")


def serve_proxy(config: str, port: int) -> None:
    handrail("--config", config, "mcp", "serve", "--http", f"127.0.0.1:{port}", "--rule", "allow shop:pay")


def run_http_client(folder: Path, era: str, port: int) -> None:
    asyncio.run(run_client(folder, era, f"http://127.0.0.1:{port}/mcp"))


HTTP = McpHttpRow("MCP proxy over HTTP, 2026-07-28", MODERN)
HTTP_2025 = McpHttpRow("MCP proxy over HTTP, 2025-11-25", "legacy")
