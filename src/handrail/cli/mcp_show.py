"""`handrail mcp show`: one server with everything that it says of itself."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from handrail.app.person import shown
from handrail.cli import text
from handrail.cli.consent import person_here
from handrail.cli.detail import print_fields
from handrail.cli.groups import examples
from handrail.cli.mcp_servers import complete_servers, connected
from handrail.cli.resources import takes
from handrail.cli.setup import Setup, configured
from handrail.cli.view import answer, answer_json
from handrail.core.errors import McpError
from handrail.mcp.client.ensemble import McpEnsemble
from handrail.tools.finder import one_line


@click.command("show", epilog=examples("handrail mcp show time", "handrail mcp show time --json | jq .tools"))
@click.argument("name", shell_complete=complete_servers)
@configured
def command(setup: Setup, name: str) -> None:
    """Connect to the server of this NAME and show what it is, what it offers, what is held back and why."""
    told = asyncio.run(_told(setup, name))
    if setup.view.as_json:
        answer_json(told)
        return
    answer(text.visible(name), "title")
    facts = told["facts"]
    print_fields(
        [
            ("is", text.visible(told["what"])),
            ("calls itself", text.visible(f"{facts['name']} {facts['version']}")),
            ("protocol", text.visible(facts["protocol"])),
            ("offers", text.visible(", ".join(sorted(facts["capabilities"]))) or "-"),
        ]
    )
    for line in text.block(facts["instructions"]).splitlines():
        answer(f"  {line}")
    for title in ("tools", "held", "resources", "prompts"):
        _print(title, told[title])
    if told["diagnosis"]:
        answer("diagnosis", "title")
        for line in text.block(told["diagnosis"]).splitlines():
            answer(f"  {line}")


def _print(title: str, items: dict[str, str]) -> None:
    if not items:
        return
    answer(title, "title")
    for name, says in items.items():
        answer(f"  {text.visible(name)}: {text.visible(says)}" if says else f"  {text.visible(name)}")


async def _told(setup: Setup, name: str) -> dict[str, Any]:
    async with connected(setup, (name,), person_here()) as servers:
        ensemble = servers[name].ensemble
        return {
            "server": name,
            "what": shown(setup.config.mcp[name].endpoint),
            "facts": text.builtins(ensemble.connection.facts),
            "tools": {tool.name: f"{tool.effects}; {one_line(tool)}" for tool in ensemble.tools},
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
    return {takes(each): each.description for each in found}
