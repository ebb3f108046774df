"""The converser's own client of an MCP server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from handrail import Policy, ToolError
from handrail.compat.converser.mcp_servers import MCPClient, create_invoker_from_mcp_tool
from handrail.mcp import McpBounds, StdioEndpoint
from tests.mcp.servers.described_server import command, describe, tool

LOOK = tool("look", annotations={"readOnlyHint": True})
RENEW = tool("renew", annotations={"readOnlyHint": True})


def _server(file: Path) -> StdioEndpoint:
    program, *arguments = command(file)
    return StdioEndpoint(command=program, args=tuple(arguments))


async def test_what_the_server_offers_later_can_be_called_then(tmp_path: Path) -> None:
    file, changed = describe(tmp_path / "tools.json", RENEW), asyncio.Event()
    options = {"bounds": McpBounds(settle=0.01), "on_change": changed.set}
    async with MCPClient(_server(file), options=options) as client:
        await client.call_tool("renew")
        with pytest.raises(ToolError, match="not found"):
            await client.call_tool("look")
        changed.clear()
        describe(file, RENEW, LOOK)
        await client.call_tool("renew")
        await asyncio.wait_for(changed.wait(), 20)
        assert "look" in await client.call_tool("look")


async def test_a_tool_is_found_by_the_name_that_its_server_gives_it(tmp_path: Path) -> None:
    file = describe(tmp_path / "tools.json", LOOK)
    async with MCPClient(_server(file), options={"prefix": "far_"}, policy=Policy()) as client:
        (listed,) = await client.list_tools()
        assert create_invoker_from_mcp_tool(listed, client).name == "far_look"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("stdio:///usr/bin/weather-server --fast", "weather-server"),
        ("https://ada:secret@docs.example:8443/mcp", "docs.example_8443"),
        ("http://[::1]:80/mcp", "__1_80"),
    ],
)
def test_a_server_without_a_name_is_called_after_where_it_is_and_not_after_who_asks(address: str, name: str) -> None:
    assert MCPClient(address).ensemble.name == name
