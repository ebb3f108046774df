"""Tell where a repository stands, as a value, with the help of two MCP servers: git and time."""

import sys
from dataclasses import dataclass
from datetime import datetime

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset


@dataclass
class Handover:
    """Where a repository stands."""

    branch: str
    last_change: str
    clean: bool
    time_in_tokyo: datetime


repository = sys.argv[1]
git = MCPToolset(StdioTransport(command="mcp-server-git", args=["--repository", repository]))
time = MCPToolset(StdioTransport(command="mcp-server-time", args=[]))

agent = Agent("openai-chat:gpt-4.1", output_type=Handover, toolsets=[git, time])
result = agent.run_sync(f"Where does {repository} stand, and what time is it in Tokyo?")
print(result.output)
