"""Tell where a repository stands, as a value, with the help of two MCP servers: git and time."""

import sys
from dataclasses import dataclass
from datetime import datetime

from handrail import Session
from handrail.mcp import mcp_ensemble


@dataclass
class Handover:
    """Where a repository stands."""

    branch: str
    last_change: str
    clean: bool
    time_in_tokyo: datetime


repository = sys.argv[1]
git = mcp_ensemble("git", "mcp-server-git", "--repository", repository)
time = mcp_ensemble("time", "mcp-server-time")

with Session("openai:gpt-4.1", tools=[git, time]) as session:
    reply = session.ask(f"Where does {repository} stand, and what time is it in Tokyo?", returns=Handover)
    print(reply.value)
