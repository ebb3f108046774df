"""`handrail tools list`: what models are offered."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import TableColumn, answer_json, table, tell
from handrail.cli.run_options import CliSetup, configured, with_tools
from handrail.cli.tools.offered_tools import offered_tools
from handrail.tools.finder import description_line
from handrail.tools.tool import Tool

_COLUMNS = (
    TableColumn("tool"),
    TableColumn("effects"),
    TableColumn("timeout", right=True),
    TableColumn("description", cut=True),
)
NONE = "There are no tools; name some with --tools, or list files under `ensembles` in handrail.toml."


@click.command(
    "list",
    epilog=examples(
        "handrail tools list",
        "handrail tools list --tools tools.py",
        "handrail tools list --json | jq -r .name",
    ),
)
@with_tools
@configured
def command(setup: CliSetup, tools: tuple[str, ...]) -> None:
    """List the tools: what they are called, whether they change something, what they are for."""
    found = offered_tools(setup.config, tools)
    if setup.view.as_json:
        for tool in found:
            answer_json({**tool.definition.to_dict(), "scoped_name": tool.scoped_name})
        return
    if not len(found):
        tell(NONE)
        return
    table(_COLUMNS, [_row(tool, setup.config.policy.timeout) for tool in found])


def _row(tool: Tool, timeout: float) -> tuple[str, ...]:
    seconds = f"{tool.definition.timeout or timeout:g} s"
    return text.printable(tool.scoped_name), tool.effects, seconds, short_description(tool)


def short_description(tool: Tool) -> str:
    """The beginning of a description, for a table."""
    return text.printable(text.short(description_line(tool), 100)) or "-"
