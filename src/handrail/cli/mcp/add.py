"""`handrail mcp add`: one server, by its command or its address."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from handrail.cli import text
from handrail.cli.config.approval import keep_approval
from handrail.cli.lazy_groups import cli_command
from handrail.cli.mcp.approval import approve_server
from handrail.cli.output.view import tell
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.terminal.person import terminal_person
from handrail.config.load import NAME, load_config
from handrail.config.mcp_import import add_servers, read_entry
from handrail.config.server_secrets import ServerSecrets
from handrail.core.errors import UsageError


@cli_command(
    "add",
    "handrail mcp add time -- uvx mcp-server-time@2026.10.19",
    "handrail mcp add github --env GITHUB_TOKEN=env:GITHUB_TOKEN -- github-mcp-server stdio",
    "handrail mcp add docs --url https://docs.example/mcp --header 'Authorization: env:DOCS_TOKEN'",
)
@click.argument("name")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND…]")
@click.option("--url", metavar="URL", help="The address of a server over streamable HTTP, instead of a command.")
@click.option(
    "--env",
    multiple=True,
    metavar="NAME=VALUE",
    help="An environment variable for the command; can be given several times.",
)
@click.option(
    "--header",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="With --url: a header to send with each request; can be given several times.",
)
@click.option(
    "--prefix", metavar="TEXT", help="Prefix the names of its tools, for when two servers use the same names."
)
@click.option("--no-connect", is_flag=True, help="Do not connect to list its tools.")
@configured
def command(
    setup: CliSetup,
    name: str,
    words: tuple[str, ...],
    url: str | None,
    env: tuple[str, ...],
    header: tuple[str, ...],
    prefix: str | None,
    no_connect: bool,
) -> None:
    """Add the server NAME to handrail.toml, approve it, and list its tools.

    You typed the command yourself, so it counts as approved. A value that looks like a secret is kept in your state
    folder, in a file that only you can read; env:NAME refers to an environment variable instead. If the server cannot
    be started, it is still added, and the exit code is 1.
    """
    if (url is None) == (not words):
        raise UsageError(
            "name its command or its address: handrail mcp add NAME -- COMMAND…, or handrail mcp add NAME --url URL"
        )
    entry: dict[str, Any] = {"url": url, "headers": _pairs(header, ":")} if url else {"command": words[0]}
    if not url:
        entry |= {"args": list(words[1:]), "env": _pairs(env, "=")}
    if env if url else header:
        raise UsageError("--env is for a command, and --header is for --url")
    server = read_entry(name, entry, prefix, Path.cwd(), Path.home())
    if server.name != name:
        raise UsageError(f"the name of a server has 1 to 64 of A-Z a-z 0-9 _ -, as {server.name!r}")
    target = setup.config.file or Path.cwd() / NAME
    with keep_approval(setup.config, target):
        add_servers(target, (server,))
    ServerSecrets.here().keep(target, name, server.secrets)
    tell(f"{text.printable(name)} is in {text.printable(str(target))}")
    added = replace(setup, config=load_config(target))
    if not asyncio.run(approve_server(added, name, terminal_person(ask=False), True, not no_connect)):
        raise click.exceptions.Exit(1)


def _pairs(written: Iterable[str], between: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in written:
        name, there, value = each.partition(between)
        if not there or not name.strip():
            raise UsageError(f"write NAME{between}VALUE, not {each!r}" if between == "=" else "write 'NAME: VALUE'")
        found[name.strip()] = value.strip() if between == ":" else value
    return found
