"""What the rows of the MCP proxy share: the client, the server behind the proxy, and the proxy's configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reliability.stage import ARGUMENTS, pay as pay_into_book, tell

MODERN = "2026-07-28"


async def run_client(folder: Path, era: str, server: Any) -> None:
    """The customer: one call of the official client, and what it gave."""
    from httpx2 import HTTPError
    from mcp import Client
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED

    try:
        async with Client(server, mode=era, cache=None, read_timeout_seconds=30) as client:
            try:
                result = await client.call_tool("pay", ARGUMENTS)
            except MCPError as refused:
                if refused.code == CONNECTION_CLOSED:
                    raise
                tell(folder, str(refused))  # as where the proxy has not reached its server yet
            else:
                tell(folder, "\n".join(each.text for each in result.content if each.type == "text"))
    except* (MCPError, OSError, HTTPError):
        pass  # the proxy is gone: the customer was told nothing, and asks again


def shop(folder: Path) -> Any:
    """The server behind the proxy, made with the official package. It knows nothing of handrail."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("shop")

    @server.tool()
    def pay(to: str, cents: int) -> str:
        """Pay somebody."""
        return pay_into_book(folder)

    return server


def serve_shop_stdio(folder: Path) -> None:
    shop(folder).run("stdio")


def serve_shop_http(folder: Path, port: int) -> None:
    import uvicorn

    app = shop(folder).streamable_http_app(host="127.0.0.1")
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


def proxy_config(folder: Path, *, command: Sequence[str] = (), url: str = "") -> Path:
    """The configuration of the proxy."""
    reached = f"command = {json.dumps(list(command))}" if command else f"url = {json.dumps(url)}"
    path = folder / "handrail.toml"
    path.write_text(f'[proof]\njournal = "journal.db"\n\n[mcp.shop]\n{reached}\nnew_tools = "allow"\n')
    return path


def approve(config: Path, environ: Mapping[str, str]) -> None:
    """A person has looked at the configuration and allowed it, as by `handrail approve` and `handrail mcp approve`."""
    from handrail.config.approvals import Approvals
    from handrail.config.load import load_config
    from handrail.config.powers import powers_of

    values = {**os.environ, **environ}
    loaded, approvals = load_config(config, values), Approvals.here(values)
    approvals.approve_config(config, powers_of(loaded, values), by="ada")
    for name, server in loaded.mcp.items():
        approvals.approve(config, name, server.endpoint, by="ada")
