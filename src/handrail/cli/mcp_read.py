"""`handrail mcp read`: what stands at an address of a server."""

from __future__ import annotations

import asyncio
import base64
import sys

import click

from handrail.cli import text
from handrail.cli.consent import person_here
from handrail.cli.groups import examples
from handrail.cli.mcp_servers import complete_servers, connected, usable
from handrail.cli.resources import read_anywhere
from handrail.cli.setup import Setup, configured
from handrail.cli.view import answer, answer_json, is_terminal
from handrail.mcp.values import ResourceBody


@click.command(
    "read",
    epilog=examples("handrail mcp read file:///notes.md", "handrail mcp read demo://picture --server demo > x.png"),
)
@click.argument("uri")
@click.option("--server", metavar="NAME", shell_complete=complete_servers, help="Whose it is. Default: all are asked.")
@configured
def command(setup: Setup, uri: str, server: str | None) -> None:
    """Read the resource at this URI, of whichever server has it."""
    for body in asyncio.run(_read(setup, uri, server)):
        if setup.view.as_json:
            data = None if body.data is None else base64.b64encode(body.data).decode()
            answer_json({"uri": body.uri, "media_type": body.media_type, "text": body.text, "data": data})
        elif body.text is not None:
            answer(text.block(body.text) if is_terminal() else body.text)
        elif is_terminal():
            answer(f"({text.count(len(body.data or b''), 'byte')} of {text.visible(body.media_type or 'something')})")
        else:
            sys.stdout.buffer.write(body.data or b"")


async def _read(setup: Setup, uri: str, server: str | None) -> list[ResourceBody]:
    person = person_here()
    names = usable(setup, person) if server is None else (server,)
    async with connected(setup, names, person, all_needed=server is not None) as servers:
        return await read_anywhere({name: each.ensemble for name, each in servers.items()}, uri)
