"""`handrail mcp import`: the servers of another program, as tables of handrail.toml."""

from __future__ import annotations

from pathlib import Path

import click

from handrail.cli import text
from handrail.cli.config.approval import keep_approval
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import answer, answer_json, tell
from handrail.cli.run_options import CliSetup, with_unapproved_configuration
from handrail.config.load import NAME
from handrail.config.mcp_import import add_servers, find_foreign, read_foreign, to_toml
from handrail.core.errors import UsageError


@cli_command(
    "import",
    "handrail mcp import claude",
    "handrail mcp import vscode --dry-run",
    "handrail mcp import ~/.cursor/mcp.json --only github",
)
@click.argument("source", metavar="FILE|claude|vscode|cursor")
@click.option("--only", multiple=True, metavar="NAME", help="Only this server; can be given several times.")
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@with_unapproved_configuration
def command(setup: CliSetup, source: str, only: tuple[str, ...], dry_run: bool) -> None:
    """Take over the MCP servers that a FILE of another program describes, or that program's own file.

    They are added to handrail.toml; nothing that is there changes, and nothing is started. Secrets are not copied:
    you are told which environment variables to set instead.
    """
    path = find_foreign(source, Path.cwd(), Path.home())
    found = read_foreign(path, Path.home())
    tell(f"From {text.printable(str(path))}:")
    servers = tuple(each for each in found.servers if not only or each.name in only)
    if missing := set(only) - {each.name for each in servers} - set(found.refused):
        raise UsageError(f"{path} has no server {', '.join(map(repr, sorted(missing)))}")
    target = setup.config.file or Path.cwd() / NAME
    if servers and not dry_run:
        with keep_approval(setup.config, target):
            add_servers(target, servers)
    for each in servers:
        if setup.view.as_json:
            answer_json({"server": each.name, "table": each.table, "variables": each.variables, "notes": each.notes})
        elif dry_run:
            answer(text.printable_lines(to_toml(each)))
        else:
            answer(f"{text.printable(each.name)} is in {text.printable(str(target))}")
        for note in each.notes:
            tell(f"{text.printable(each.name)}: {text.printable(note)}")
        for variable, what in each.variables.items():
            tell(f"{text.printable(each.name)}: set the environment variable {variable}: {text.printable(what)}")
    for name, why in found.refused.items():
        if not only or name in only:
            tell(f"{text.printable(name)} was not taken: {text.printable(why)}")
    if servers and not dry_run:
        tell("Nothing is started before you approve it: handrail mcp approve --all")
    if not servers:
        raise click.exceptions.Exit(1)
