"""`handrail mcp read`: what stands at an address of a server."""

from __future__ import annotations

import asyncio
import base64
import sys

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.mcp.resources import read_anywhere
from handrail.cli.mcp.server_selection import complete_servers, connect_servers, usable_servers
from handrail.cli.output.view import answer, answer_json, is_terminal
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.terminal.person import terminal_person
from handrail.mcp.values import ResourceBody


@click.command(
    "read",
    epilog=examples("handrail mcp read file:///notes.md", "handrail mcp read demo://picture --server demo > x.png"),
)
@click.argument("uri")
@click.option("--server", metavar="NAME", shell_complete=complete_servers, help="Whose it is. Default: all are asked.")
@configured
def command(setup: CliSetup, uri: str, server: str | None) -> None:
    """Read the resource at this URI, of whichever server has it."""
    for body in asyncio.run(_read(setup, uri, server)):
        if setup.view.as_json:
            data = None if body.data is None else base64.b64encode(body.data).decode()
            answer_json({"uri": body.uri, "media_type": body.media_type, "text": body.text, "data": data})
        elif body.text is not None:
            answer(text.printable_lines(body.text) if is_terminal() else body.text)
        elif is_terminal():
            answer(
                f"({text.count_text(len(body.data or b''), 'byte')} "
                f"of {text.printable(body.media_type or 'something')})"
            )
        else:
            sys.stdout.buffer.write(body.data or b"")


async def _read(setup: CliSetup, uri: str, server: str | None) -> list[ResourceBody]:
    person = terminal_person()
    names = usable_servers(setup, person) if server is None else (server,)
    async with connect_servers(setup, names, person, all_needed=server is not None) as servers:
        return await read_anywhere({name: each.ensemble for name, each in servers.items()}, uri)
