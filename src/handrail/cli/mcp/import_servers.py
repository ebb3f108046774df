"""`handrail mcp import`: the servers of another program, as tables of handrail.toml, and handrail in their place."""

from __future__ import annotations

from pathlib import Path

import click

from handrail.cli import text
from handrail.cli.config.approval import keep_approval
from handrail.cli.lazy_groups import cli_command
from handrail.cli.mcp.replace_servers import replace_servers, undo_replacement
from handrail.cli.output.view import answer, answer_json, tell
from handrail.cli.run_options import CliSetup, with_unapproved_configuration
from handrail.config.client_files import ClientFile, find_client_file
from handrail.config.load import NAME
from handrail.config.mcp_import import add_servers, read_foreign, to_toml
from handrail.config.replaced_files import ReplacedFiles
from handrail.core.errors import UsageError


@cli_command(
    "import",
    "handrail mcp import claude --replace",
    "handrail mcp import claude --undo",
    "handrail mcp import vscode --dry-run",
    "handrail mcp import ~/.cursor/mcp.json --only github",
)
@click.argument("source", metavar="FILE|claude|claude-desktop|cursor|vscode|codex")
@click.option("--only", multiple=True, metavar="NAME", help="Only this server; can be given several times.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--replace", is_flag=True, help="Also replace them with handrail in the file of that program.")
@click.option("--undo", is_flag=True, help="Undo the last --replace: restore the file of that program.")
@click.option("--yes", is_flag=True, help="With --replace: do not ask.")
@with_unapproved_configuration
def command(
    setup: CliSetup, source: str, only: tuple[str, ...], dry_run: bool, replace: bool, undo: bool, yes: bool
) -> None:
    """Import the MCP servers of another program, from its own file or from a FILE.

    The servers are added to handrail.toml; existing entries do not change, and nothing is started. Secrets are not
    copied: you are told which environment variables to set instead.

    With --replace, handrail stands between that program and its servers: in the file of the program, one entry that
    starts handrail replaces theirs; the rest of the file does not change. You see what each server runs and are asked
    once, which approves them. Secrets move to your state folder, into a file that only you can read. A server that
    cannot be imported stays where it is. --undo restores the file.
    """
    if replace and undo:
        raise UsageError("--replace and --undo are opposites; use only one of them")
    here, home = Path.cwd(), Path.home()
    if undo:
        undo_replacement(setup, find_client_file(source, here, home, fits=ReplacedFiles.here().has))
    elif replace:
        file = find_client_file(source, here, home, fits=_has_servers_to_take)
        replace_servers(setup, file, source, only, dry_run=dry_run, yes=yes)
    else:
        _import(setup, find_client_file(source, here, home), only, dry_run)


def _has_servers_to_take(file: ClientFile) -> bool:
    return bool(read_foreign(file, Path.home(), take_secrets=True).servers)


def _import(setup: CliSetup, file: ClientFile, only: tuple[str, ...], dry_run: bool) -> None:
    found = read_foreign(file, Path.home())
    tell(f"From {text.printable(str(file.path))}:")
    servers = tuple(each for each in found.servers if not only or each.name in only)
    if missing := set(only) - {each.name for each in servers} - set(found.refused):
        raise UsageError(f"{file.path} has no server {', '.join(map(repr, sorted(missing)))}")
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
            tell(f"{text.printable(name)} was not imported: {text.printable(why)}")
    if servers and not dry_run:
        tell("Nothing is started before you approve it: handrail mcp approve --all")
    if not servers:
        raise click.exceptions.Exit(1)
