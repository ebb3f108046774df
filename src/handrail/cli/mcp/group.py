"""`handrail mcp`: servers of tools, those that are used here and the one that this is."""

from __future__ import annotations

import click

from handrail.cli.lazy_groups import LazyGroup, examples

_COMMANDS = {
    # name      module, and what it is for
    "list": ("handrail.cli.mcp.list", "List the servers: whether they may be used, whether they answer."),
    "show": ("handrail.cli.mcp.show", "Show one server: its tools, resources and prompts."),
    "approve": ("handrail.cli.mcp.approve", "Let servers be started, and take their tools as they are."),
    "revoke": ("handrail.cli.mcp.revoke", "Take an approval back."),
    "import": ("handrail.cli.mcp.import_servers", "Take over the servers of Claude, VS Code or Cursor."),
    "login": ("handrail.cli.mcp.login", "Sign in to a server that wants it."),
    "read": ("handrail.cli.mcp.read", "Read a resource of a server."),
    "prompt": ("handrail.cli.mcp.prompt", "Show a prompt of a server, filled in."),
    "serve": ("handrail.cli.mcp.serve", "Serve these tools to any MCP client."),
}


@click.group(
    "mcp",
    cls=LazyGroup,
    modules={name: module for name, (module, _) in _COMMANDS.items()},
    says={name: says for name, (_, says) in _COMMANDS.items()},
    epilog=examples(
        "handrail mcp import claude",
        "handrail mcp approve time",
        "handrail mcp list",
        "handrail mcp serve                     for an editor or a desktop assistant to start",
    ),
)
def command() -> None:
    """Use servers of tools that speak MCP, and be one.

    Servers stand under [mcp.NAME] in handrail.toml. None of them is started or spoken to before you have
    approved it.
    """
