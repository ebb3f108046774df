"""The rows of the table, by name: where each is, and of which class. A new one is a file here and a line in ROWS."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from reliability.sweep import Row

ROWS = {
    # name       module below reliability.rows, and the row in it
    "loop": ("our_loop", "LOOP"),
    "stdio": ("mcp_stdio", "STDIO"),
    "stdio-2025": ("mcp_stdio", "STDIO_2025"),
    "http": ("mcp_http", "HTTP"),
    "http-2025": ("mcp_http", "HTTP_2025"),
    "hook": ("hook", "HOOK"),
    "gateway": ("gateway", "GATEWAY"),
    "gateway-anthropic": ("gateway", "ANTHROPIC"),
    "nats": ("nats_worker", "NATS"),
    "pydantic-ai": ("pydantic_ai", "PYDANTIC_AI"),
    "langchain": ("langchain", "LANGCHAIN"),
    "openai-agents": ("openai_agents", "OPENAI_AGENTS"),
    "agent-framework": ("agent_framework", "AGENT_FRAMEWORK"),
    "claude-agent": ("claude_agent", "CLAUDE_AGENT"),
}


def row_named(name: str) -> Row:
    """
    Raises:
        ImportError: What the row needs is not installed.
    """
    module, row = ROWS[name]
    return cast(Row, getattr(import_module(f"reliability.rows.{module}"), row))
