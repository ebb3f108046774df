"""`handrail mcp prompt`: a prompt of a server, filled in."""

from __future__ import annotations

import asyncio

import click

from handrail.cli import text
from handrail.cli.consent import person_here
from handrail.cli.groups import examples
from handrail.cli.mcp_servers import complete_servers, connected, usable
from handrail.cli.resources import arguments_of, prompt_anywhere, said
from handrail.cli.setup import Setup, configured
from handrail.cli.view import answer, answer_json
from handrail.core.messages import Message


@click.command(
    "prompt",
    epilog=examples("handrail mcp prompt review path=src/app.py", "handrail mcp prompt review --server code --json"),
)
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]…")
@click.option("--server", metavar="NAME", shell_complete=complete_servers, help="Whose it is. Default: all are asked.")
@configured
def command(setup: Setup, name: str, arguments: tuple[str, ...], server: str | None) -> None:
    """Show the messages of the prompt of this NAME, filled in with these arguments."""
    for message in asyncio.run(_prompt(setup, name, arguments_of(arguments), server)):
        if setup.view.as_json:
            answer_json(message)
        else:
            who, words = said(message)
            answer(who, "title")
            answer(text.block(words))


async def _prompt(setup: Setup, name: str, arguments: dict[str, str], server: str | None) -> tuple[Message, ...]:
    person = person_here()
    names = usable(setup, person) if server is None else (server,)
    async with connected(setup, names, person, all_needed=server is not None) as servers:
        return await prompt_anywhere({each: found.ensemble for each, found in servers.items()}, name, arguments)
