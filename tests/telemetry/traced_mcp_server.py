"""A program that serves one tool over MCP: which trace is it called in?"""

from __future__ import annotations

import asyncio

from handrail.core.invocation import Invocation
from handrail.mcp.server.stdio import serve_stdio
from handrail.tools.tool import Tool
from tests.mcp.server.server_setup import scene


async def trace(invocation: Invocation) -> str:
    """Say in which trace this call is."""
    return invocation.context.trace or "none"


if __name__ == "__main__":
    asyncio.run(serve_stdio(scene(Tool.from_function(trace, schema={"type": "object"})).served))
