"""`handrail mcp show`: one server with everything that it says of itself."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from handrail.app.person import endpoint_description
from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.mcp.resources import prompt_usage
from handrail.cli.mcp.server_selection import complete_servers, connect_servers
from handrail.cli.output.call_detail import print_fields
from handrail.cli.output.view import answer, answer_json
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.terminal.person import terminal_person
from handrail.core.errors import McpError
from handrail.mcp.client.ensemble import McpEnsemble
from handrail.tools.finder import description_line


@click.command("show", epilog=examples("handrail mcp show time", "handrail mcp show time --json | jq .tools"))
@click.argument("name", shell_complete=complete_servers)
@configured
def command(setup: CliSetup, name: str) -> None:
    """Connect to the server of this NAME and show what it is, what it offers, what is held back and why."""
    told = asyncio.run(_told(setup, name))
    if setup.view.as_json:
        answer_json(told)
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


async def _told(setup: CliSetup, name: str) -> dict[str, Any]:
    async with connect_servers(setup, (name,), terminal_person()) as servers:
        ensemble = servers[name].ensemble
        return {
            "server": name,
            "what": endpoint_description(setup.config.mcp[name].endpoint),
            "facts": text.builtins(ensemble.connection.facts),
            "tools": {tool.name: f"{tool.effects}; {description_line(tool)}" for tool in ensemble.tools},
            "held": dict(ensemble.held),
            "resources": await _resources(ensemble),
            "prompts": await _prompts(ensemble),
            "diagnosis": ensemble.connection.diagnosis,
        }


async def _resources(ensemble: McpEnsemble) -> dict[str, str]:
    try:
        return {each.uri: each.description or each.name for each in await ensemble.resources()}
    except McpError as error:
        return {"(cannot be listed)": error.why}


async def _prompts(ensemble: McpEnsemble) -> dict[str, str]:
    try:
        found = await ensemble.prompts()
    except McpError as error:
        return {"(cannot be listed)": error.why}
    return {prompt_usage(each): each.description for each in found}
