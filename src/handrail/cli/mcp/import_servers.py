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
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@click.option("--replace", is_flag=True, help="Also put handrail into their place in that program's file.")
@click.option("--undo", is_flag=True, help="Take the last --replace back: that program's file is as it was.")
@click.option("--yes", is_flag=True, help="With --replace: without being asked.")
@with_unapproved_configuration
def command(
    setup: CliSetup, source: str, only: tuple[str, ...], dry_run: bool, replace: bool, undo: bool, yes: bool
) -> None:
    """Take over the MCP servers that a FILE of another program describes, or that program's own file.

    They are added to handrail.toml; nothing that is there changes, and nothing is started. Secrets are not copied:
    you are told which environment variables to set instead.

    With --replace, handrail stands between that program and its servers: its file is left with one entry in their
    place, which starts handrail; all else in it stays as it is written. You are shown what each server runs and asked
    once, which approves them. Secrets move to your state folder, into a file that only you can read. What cannot be
    taken over stays where it is. --undo gives the file back.
    """
    if replace and undo:
        raise UsageError("--replace and --undo are opposites; take one")
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
            tell(f"{text.printable(name)} was not taken: {text.printable(why)}")
    if servers and not dry_run:
        tell("Nothing is started before you approve it: handrail mcp approve --all")
    if not servers:
        raise click.exceptions.Exit(1)
