"""`handrail mcp import --replace` and `--undo`: handrail in the place of a client's servers, and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from handrail.cli import text
from handrail.cli.config.approval import keep_approval
from handrail.cli.journal_location import journal_to_write
from handrail.cli.mcp.proxy_entry import proxy_entry, served_config
from handrail.cli.output.view import answer, ask, tell
from handrail.cli.run_options import CliSetup
from handrail.cli.terminal.person import describe_server_start, terminal_person
from handrail.config.client_files import ClientFile, read_client_text
from handrail.config.client_rewrite import ProxyEntry, RewrittenText
from handrail.config.load import NAME, load_config, read_config
from handrail.config.mcp_import import ImportedServer, ServerImport, add_servers, is_proxy, read_foreign, to_toml
from handrail.config.replaced_files import ReplacedFiles, rewritten
from handrail.config.server_secrets import ServerSecrets
from handrail.config.values import Config
from handrail.core.durable_files import make_folder
from handrail.core.errors import UsageError
from handrail.tools.files.toml_table import TomlKeyPath, TomlTable, read_toml_file

ENTRY = "handrail"


@dataclass(frozen=True, slots=True)
class Replacement:
    """Everything that a replacement would change, before anything is changed."""

    file: ClientFile
    text: str
    """The text of the client's file, as it was read."""
    target: Path
    """The configuration that the servers go to."""
    config: Config
    servers: tuple[ImportedServer, ...]
    new: tuple[ImportedServer, ...]
    """The servers that the configuration does not have yet, as the client's file has them."""
    stays: Mapping[str, str]
    """Entries that are left where they are, with why."""
    entry: ProxyEntry
    added: bool
    """Whether the entry is new."""
    done: RewrittenText


def replace_servers(
    setup: CliSetup, file: ClientFile, source: str, only: tuple[str, ...], *, dry_run: bool, yes: bool
) -> None:
    tell(f"In {text.printable(str(file.path))}:")
    plan = plan_replacement(setup, file, only)
    if plan is None:
        setup.view.reply(
            {"file": str(file.path), "replaced": [], "stays": {}}, "its servers already go through handrail"
        )
        return
    for name, why in plan.stays.items():
        tell(f"{text.printable(name)} stays where it is: {text.printable(why)}")
    if not plan.servers and plan.added:
        raise UsageError(f"nothing in {str(file.path)!r} can be imported, so nothing was changed")
    if not plan.servers:
        setup.view.reply(_answer(plan), "the others already go through handrail")
        return
    if dry_run:
        answer("".join(text.printable_lines(to_toml(each)) for each in plan.new))
        return
    for server in plan.servers:
        settings = _config_with(plan).mcp[server.name]
        describe_server_start(server.name, settings.endpoint, "handrail would start it instead of that program")
    if not yes and not ask(f"Let handrail use {text.count_text(len(plan.servers), 'server')}, in their place?"):
        tell("Nothing was changed.")
        raise click.exceptions.Exit(1)
    _carry_out(plan)
    _report(setup, plan, source)


def plan_replacement(setup: CliSetup, file: ClientFile, only: tuple[str, ...]) -> Replacement | None:
    """What would change; None if there is nothing but handrail already.

    Raises:
        UsageError: It cannot be done.
        ConfigError: A file cannot be read.
    """
    client_text, entries = read_client_text(file.path), file.servers()
    found = read_foreign(file, Path.home(), take_secrets=True)
    ours = {name: entry for name, entry in entries.items() if is_proxy(entry)}
    if ours and len(ours) == len(entries):
        return None
    if missing := set(only) - entries.keys() - {each.name for each in found.servers}:
        raise UsageError(f"{file.path} has no server {', '.join(map(repr, sorted(missing)))}")
    target = _target(setup, file, ours)
    config = load_config(target) if target.is_file() else Config()
    servers, new, stays = _sorted_out(found, target, only)
    stays = {name: why for name, why in stays.items() if name not in ours}
    journal = journal_to_write(
        setup.view.named_file("handrail mcp import"), config.journal, target.parent, target.parent
    )
    entry = ProxyEntry(*next(iter(ours.items()))) if ours else None
    names = tuple(each.written for each in servers)
    written = entry or ProxyEntry(_free_name(entries.keys() - set(names)), proxy_entry(file, target, journal, servers))
    if ours and any(each.inputs or (file.is_toml and each.variables) for each in servers):
        tell(f"{written.name!r} stays as it is: add the variables that the new servers need to it yourself")
    done = rewritten(file, client_text, names, None if ours else written) if names else RewrittenText(client_text, {})
    return Replacement(file, client_text, target, config, servers, new, stays, written, not ours, done)


def _target(setup: CliSetup, file: ClientFile, ours: Mapping[str, Any]) -> Path:
    """The configuration that is named; that of the entry which is there; else for a project's file the one near, and
    for a user's file the user's own."""
    if setup.view.config is not None and setup.config.file is not None:
        return setup.config.file
    for entry in ours.values():
        if (served := served_config(entry)) is not None:
            return served
    if file.project:
        return setup.config.file or Path.cwd() / NAME
    stated = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(stated) if stated.startswith("/") else Path.home() / ".config"
    return folder / "handrail" / NAME


def _sorted_out(
    found: ServerImport, target: Path, only: tuple[str, ...]
) -> tuple[tuple[ImportedServer, ...], tuple[ImportedServer, ...], dict[str, str]]:
    """The servers to take, those of them that are new to the configuration, and what stays with why."""
    there = dict(read_toml_file(target).values.get("mcp", {})) if target.is_file() else {}
    stays = {name: why for name, why in found.refused.items() if not only or name in only}
    wanted = [each for each in found.servers if not only or {each.name, each.written} & set(only)]
    several = len({*there, *(each.name for each in wanted)}) > 1
    servers: list[ImportedServer] = []
    new: list[ImportedServer] = []
    secrets = ServerSecrets.here()
    for each in wanted:
        # Where a client has several servers their tools may have the same names; here they would stand side by side.
        server = replace(each, table={**each.table, "prefix": f"{each.name}_"}) if several else each
        known = there.get(each.name)
        if known is None:
            new.append(server)
        elif {**known, "prefix": ""} != {**each.table, "prefix": ""} or secrets.of(target, each.name) != each.secrets:
            stays[each.written] = f"[mcp.{each.name}] in {target} is different; rename one of them"
            continue
        servers.append(server)
    return tuple(servers), tuple(new), stays


def _free_name(taken: set[str]) -> str:
    return next(name for name in (ENTRY, *(f"{ENTRY}-{number}" for number in range(2, 99))) if name not in taken)


def _config_with(plan: Replacement) -> Config:
    """The configuration as it will be."""
    tables = {each.name: dict(each.table) for each in plan.servers}
    place = TomlKeyPath(str(plan.target), folder=plan.target.parent)
    return read_config(TomlTable({"mcp": tables}, place), plan.target)


def _carry_out(plan: Replacement) -> None:
    """The servers are ready before the client's file names handrail; stopped in between, nothing is lost."""
    make_folder(plan.target.absolute().parent, 0o755)
    secrets, person = ServerSecrets.here(), terminal_person(ask=False)
    for server in plan.new:
        secrets.keep(plan.target, server.name, server.secrets)
    if plan.new:
        with keep_approval(plan.config, plan.target):
            add_servers(plan.target, plan.new)
    config = load_config(plan.target)
    for server in plan.servers:
        person.approvals.approve(plan.target, server.name, config.mcp[server.name].endpoint, by=person.by)
    ReplacedFiles.here().replace(plan.file, plan.text, plan.done, plan.entry, added=plan.added)


def _report(setup: CliSetup, plan: Replacement, source: str) -> None:
    names = [each.name for each in plan.servers]
    moved = sum(len(each.secrets) for each in plan.new)
    for server in plan.servers:
        for note in server.notes:
            tell(f"{text.printable(server.name)}: {text.printable(note)}")
        for variable, what in server.variables.items():
            if variable not in server.inputs:
                tell(f"{text.printable(server.name)}: it needs the environment variable {variable}: {what}")
    if moved:
        counted = text.count_text(moved, "secret")
        tell(f"{counted} moved to {text.printable(str(ServerSecrets.here().path))}, which only you can read")
    tell(
        f"Restart {text.printable(plan.file.client)}. To undo this: handrail mcp import {text.printable(source)} --undo"
    )
    setup.view.reply(
        _answer(plan),
        f"{text.printable(', '.join(names))}: now through handrail, configured in {text.printable(str(plan.target))}",
    )


def _answer(plan: Replacement) -> dict[str, Any]:
    names = [each.name for each in plan.servers]
    return {"file": str(plan.file.path), "config": str(plan.target), "replaced": names, "stays": dict(plan.stays)}


def undo_replacement(setup: CliSetup, file: ClientFile) -> None:
    """Give the client's file back what it had. The servers stay in handrail.toml, for who else uses them."""
    names = ReplacedFiles.here().undo(file)
    setup.view.reply(
        {"file": str(file.path), "restored": list(names)},
        f"{text.printable(str(file.path))} has {text.printable(', '.join(names))} again;"
        " the tables in handrail.toml are kept",
    )
