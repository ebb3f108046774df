"""`handrail mcp list`: the servers, and how each of them stands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from handrail.app import Person
from handrail.app.person import endpoint_description, unpinned_reason
from handrail.app.tool_groups import AppMcpServer
from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.mcp.server_selection import connect_servers, usable_servers
from handrail.cli.output.view import TableColumn, answer_json, table, tell
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.terminal.person import terminal_person
from handrail.config.approvals import unapproved_reason
from handrail.config.mcp_settings import McpSettings
from handrail.core.errors import ConfigError

_COLUMNS = (
    TableColumn("server"),
    TableColumn("state"),
    TableColumn("tools", right=True),
    TableColumn("held", right=True),
    TableColumn("what", cut=True),
)
_STYLES = {"ready": "green", "lost": "red", "off": "dim", "unapproved": "yellow", "approved": "cyan"}
NONE = "There are no servers; write [mcp.NAME] into handrail.toml, or take some over with: handrail mcp import"


@click.command(
    "list",
    epilog=examples("handrail mcp list", "handrail mcp list --no-connect", "handrail mcp list --json | jq .state"),
)
@click.option("--no-connect", is_flag=True, help="Do not connect to those that are approved.")
@configured
def command(setup: CliSetup, no_connect: bool) -> None:
    """List the servers of the configuration: whether they may be used, whether they answer, what they offer."""
    if not setup.config.mcp:
        tell(NONE)
        return
    person = terminal_person(ask=False)
    rows = asyncio.run(_rows(setup, person, not no_connect))
    if setup.view.as_json:
        for row in rows:
            answer_json(row)
        return
    table(_COLUMNS, [_row(row) for row in rows], _STYLES)
    for row in rows:
        for note in row["notes"]:
            tell(f"{text.printable(row['server'])}: {text.printable(note)}")


async def _rows(setup: CliSetup, person: Person, connect: bool) -> list[dict[str, Any]]:
    names = usable_servers(setup, person) if connect else ()
    async with connect_servers(setup, names, person, all_needed=False) as servers:
        return [_told(setup, person, name, servers) for name in setup.config.mcp]


def _told(setup: CliSetup, person: Person, name: str, servers: Mapping[str, AppMcpServer]) -> dict[str, Any]:
    settings = setup.config.mcp[name]
    row: dict[str, Any] = {"server": name, "state": "approved", "tools": [], "held": {}, "notes": []}
    row["what"] = endpoint_description(settings.endpoint)
    file = setup.config.file
    why = None if file is None else unapproved_reason(person.approvals, file, name, settings.endpoint)
    if not settings.enabled:
        row["state"] = "off"
    elif why is not None:
        row["state"] = "unapproved"
        row["notes"].append(f"{why}; look at it with: handrail mcp approve {name}")
    elif name in servers:
        ensemble = servers[name].ensemble
        row["state"] = "lost" if ensemble.problem else "ready"
        row["tools"] = [tool.name for tool in ensemble.tools]
        row["held"] = dict(ensemble.held)
        row["notes"] += [ensemble.problem] if ensemble.problem else []
        row["notes"] += [f"some tools are held back; see why with: handrail mcp show {name}"] if ensemble.held else []
    elif (problem := _unset(settings)) is not None:
        row.update(state="lost", notes=[problem])
    if (warning := unpinned_reason(settings.endpoint)) is not None:
        row["notes"].append(warning)
    return row


def _unset(settings: McpSettings) -> str | None:
    """Which variable it lacks, in words."""
    try:
        settings.resolved()
    except ConfigError as error:
        return str(error)
    return None


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (text.dashed(len(row["tools"])), text.dashed(len(row["held"])))
    return text.printable(row["server"]), row["state"], *counts, text.printable(row["what"])
