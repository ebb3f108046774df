"""`handrail mcp`: servers of tools, those that are used here and the one that this is."""

from __future__ import annotations

from handrail.cli.lazy_groups import lazy_group


@lazy_group(
    "mcp",
    {
        "add": ("mcp.add", "Add a server, by its command or its address."),
        "list": ("mcp.servers:list_servers", "List the servers: whether they are approved, whether they answer."),
        "show": ("mcp.servers:show", "Show one server: its tools, resources and prompts."),
        "approve": ("mcp.approval:approve", "Approve servers and their current tools."),
        "revoke": ("mcp.approval:revoke", "Revoke an approval."),
        "import": ("mcp.import_servers", "Import the servers of Claude, Cursor, VS Code or Codex."),
        "status": ("mcp.status", "Show which clients use which servers, and which ones go through handrail."),
        "login": ("mcp.approval:login", "Sign in to a server that requires it."),
        "read": ("mcp.resources:read", "Read a resource of a server."),
        "prompt": ("mcp.resources:prompt", "Show a prompt of a server with its arguments filled in."),
        "serve": ("mcp.serve", "Serve these tools to any MCP client."),
    },
    "handrail mcp import claude --replace   run between Claude and its servers",
    "handrail mcp add time -- uvx mcp-server-time@2026.10.19",
    "handrail mcp status",
    "handrail mcp serve                     the command that an MCP client starts",
)
def command() -> None:
    """Use MCP servers as tools, and serve your tools over MCP.

    Servers are configured under [mcp.NAME] in handrail.toml. handrail does not start or contact a server until you have
    approved it.
    """
