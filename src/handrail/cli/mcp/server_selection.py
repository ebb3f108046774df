"""What the commands of `handrail mcp` share: the servers that a person means, and a connection to them."""

from __future__ import annotations

import difflib
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from handrail.app import Person
from handrail.app.tool_groups import AppMcpServer, GroupContext, close_all, make_server, server_refusal
from handrail.cli.complete import completer, named_config
from handrail.cli.run_options import CliSetup
from handrail.config.approvals import unapproved_reason
from handrail.config.load import find_config, load_config
from handrail.config.mcp import McpSettings
from handrail.config.values import Config
from handrail.core.errors import ConfigError, McpError, UsageError
from handrail.execute.confirm import DeferAll
from handrail.execute.terminal.approver import TerminalApprover
from handrail.tools.registry import prepare_ensembles

complete_servers = completer(lambda ctx: load_config(find_config(named_config(ctx), Path.cwd())).mcp)


def servers_by_name(config: Config, name: str) -> McpSettings:
    """The settings of a server; a `UsageError` lists the names if there is no such server."""
    if name not in config.mcp:
        near = difflib.get_close_matches(name, config.mcp, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(config.mcp) or 'none'}"
        raise UsageError(f"there is no [mcp.{name}] in {config.file or 'any handrail.toml'}; {hint}")
    return config.mcp[name]


def file_of(config: Config) -> Path:
    """The file of the configuration, without which there is nothing to approve: a `UsageError` says so."""
    if config.file is None:
        raise UsageError("there is no handrail.toml here or above; servers are configured there, under [mcp.NAME]")
    return config.file


@asynccontextmanager
async def connect_servers(
    setup: CliSetup, names: Iterable[str], person: Person, *, all_needed: bool = True
) -> AsyncIterator[Mapping[str, AppMcpServer]]:
    """These servers, all connected at once. One that is needed and is not available ends it.

    Raises:
        UsageError: One of them is not approved, or lacks a variable.
        McpError: One of them cannot be reached.
    """
    config = setup.config
    here = sys.stdin.isatty() and sys.stderr.isatty()
    around = GroupContext(person, TerminalApprover(by=person.by) if here else DeferAll())
    servers: dict[str, AppMcpServer] = {}
    try:
        for name in names:
            settings = servers_by_name(config, name)
            if (why := why_unapproved(config, name, person)) is not None:
                raise UsageError(server_refusal(name, settings, why))
            try:
                servers[name] = make_server(config, name, settings, around)
            except ConfigError:
                if all_needed:
                    raise
        await prepare_ensembles((server.ensemble for server in servers.values()), person.tell)
        for name, server in servers.items():
            if all_needed and server.ensemble.problem:
                raise McpError(name, server.ensemble.problem.removeprefix(f"MCP server {name!r}: "))
        yield servers
    finally:
        await close_all(servers.values())


def usable_servers(setup: CliSetup, person: Person) -> tuple[str, ...]:
    """The names of the servers that are switched on and approved."""
    config = setup.config
    return tuple(
        name for name, each in config.mcp.items() if each.enabled and why_unapproved(config, name, person) is None
    )


def why_unapproved(config: Config, name: str, person: Person) -> str | None:
    """Why a server may not be used, if it may not. One that no file names needs no approval."""
    if config.file is None:
        return None
    return unapproved_reason(person.approvals, config.file, name, config.mcp[name].endpoint)
