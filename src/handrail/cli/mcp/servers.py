"""`handrail mcp list` and `show`: the servers, how each of them stands, and what one says of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import click

from handrail.app import Person
from handrail.app.person import endpoint_description, unpinned_reason
from handrail.app.tool_groups import AppMcpServer
from handrail.cli import text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.mcp.resources import prompt_usage
from handrail.cli.mcp.server_selection import complete_servers, connect_servers, usable_servers, why_unapproved
from handrail.cli.output.timeline import print_fields
from handrail.cli.output.view import answer, columns, table, tell, with_output_file
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.terminal.person import terminal_person
from handrail.config.mcp import McpSettings
from handrail.core.errors import ConfigError, McpError
from handrail.tools.finder import description_line

T = TypeVar("T")
_COLUMNS = columns("server", "state", "tools", "held", "what", right=("tools", "held"), cut="what")
_STYLES = {"ready": "green", "lost": "red", "off": "dim", "unapproved": "yellow", "approved": "cyan"}
_NONE = "There are no servers; write [mcp.NAME] into handrail.toml, or import some with: handrail mcp import"


@cli_command("list", "handrail mcp list", "handrail mcp list --no-connect", "handrail mcp list --json | jq .state")
@click.option("--no-connect", is_flag=True, help="Do not connect to approved servers.")
@configured
@with_output_file
def list_servers(setup: CliSetup, no_connect: bool) -> None:
    """List the configured servers: whether they are approved, whether they answer, and what they offer.

    The exit code is 1 if a server does not answer.
    """
    if not setup.config.mcp:
        tell(_NONE)
        return
    person = terminal_person(ask=False)
    rows = asyncio.run(server_rows(setup, person, not no_connect))
    if not setup.view.wrote_json(*rows):
        table(_COLUMNS, [_row(row) for row in rows], _STYLES)
        for row in rows:
            for note in row["notes"]:
                tell(f"{text.printable(row['server'])}: {text.printable(note)}")
    if any(row["state"] == "lost" for row in rows):
        raise click.exceptions.Exit(1)


async def server_rows(setup: CliSetup, person: Person, connect: bool) -> list[dict[str, Any]]:
    """The state of each server of the configuration; with `connect`, those that may be used are connected to."""
    names = usable_servers(setup, person) if connect else ()
    async with connect_servers(setup, names, person, all_needed=False) as servers:
        return [_state_of(setup, person, name, servers) for name in setup.config.mcp]


def _state_of(setup: CliSetup, person: Person, name: str, servers: Mapping[str, AppMcpServer]) -> dict[str, Any]:
    settings = setup.config.mcp[name]
    row: dict[str, Any] = {"server": name, "state": "approved", "tools": [], "held": {}, "notes": []}
    row["what"] = endpoint_description(settings.endpoint)
    why = why_unapproved(setup.config, name, person)
    if not settings.enabled:
        row["state"] = "off"
    elif why is not None:
        row["state"] = "unapproved"
        row["notes"].append(f"{why}; review it with: handrail mcp approve {name}")
    elif name in servers:
        ensemble = servers[name].ensemble
        row["state"] = "lost" if ensemble.problem else "ready"
        row["tools"] = [tool.name for tool in ensemble.tools]
        row["held"] = dict(ensemble.held)
        row["notes"] += [ensemble.problem] if ensemble.problem else []
        row["notes"] += [f"some tools are withheld; see why with: handrail mcp show {name}"] if ensemble.held else []
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


@cli_command("show", "handrail mcp show time", "handrail mcp show time --json | jq .tools")
@click.argument("name", shell_complete=complete_servers)
@configured
@with_output_file
def show(setup: CliSetup, name: str) -> None:
    """Connect to the server NAME and show what it is, what it offers, and what is withheld and why."""
    told = asyncio.run(_server_details(setup, name))
    if setup.view.wrote_json(told):
        return
    answer(text.printable(name), "title")
    facts = told["facts"]
    print_fields(
        [
            ("is", text.printable(told["what"])),
            ("calls itself", text.printable(f"{facts['name']} {facts['version']}")),
            ("protocol", text.printable(facts["protocol"])),
            ("offers", text.printable(", ".join(sorted(facts["capabilities"]))) or "-"),
        ]
    )
    for line in text.printable_lines(facts["instructions"]).splitlines():
        answer(f"  {line}")
    for title in ("tools", "held", "resources", "prompts"):
        _print(title, told[title])
    if told["diagnosis"]:
        answer("diagnosis", "title")
        for line in text.printable_lines(told["diagnosis"]).splitlines():
            answer(f"  {line}")


def _print(title: str, items: dict[str, str]) -> None:
    if not items:
        return
    answer(title, "title")
    for name, says in items.items():
        answer(f"  {text.printable(name)}: {text.printable(says)}" if says else f"  {text.printable(name)}")


async def _server_details(setup: CliSetup, name: str) -> dict[str, Any]:
    async with connect_servers(setup, (name,), terminal_person()) as servers:
        ensemble = servers[name].ensemble
        return {
            "server": name,
            "what": endpoint_description(setup.config.mcp[name].endpoint),
            "facts": text.builtins(ensemble.connection.facts),
            "tools": {tool.name: f"{tool.effects}; {description_line(tool)}" for tool in ensemble.tools},
            "held": dict(ensemble.held),
            "resources": await _described(ensemble.resources(), lambda each: (each.uri, each.description or each.name)),
            "prompts": await _described(ensemble.prompts(), lambda each: (prompt_usage(each), each.description)),
            "diagnosis": ensemble.connection.diagnosis,
        }


async def _described(asked: Awaitable[list[T]], describe: Callable[[T], tuple[str, str]]) -> dict[str, str]:
    try:
        return dict(map(describe, await asked))
    except McpError as error:
        return {"(cannot be listed)": error.why}
