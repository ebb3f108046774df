"""`handrail mcp prompt`: a prompt of a server, filled in."""

from __future__ import annotations

import asyncio

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.mcp.resources import message_role_and_text, parse_prompt_arguments, prompt_anywhere
from handrail.cli.mcp.server_selection import complete_servers, connect_servers, usable_servers
from handrail.cli.output.view import answer, answer_json
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.terminal.person import terminal_person
from handrail.core.messages import Message


@click.command(
    "prompt",
    epilog=examples("handrail mcp prompt review path=src/app.py", "handrail mcp prompt review --server code --json"),
)
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]…")
@click.option("--server", metavar="NAME", shell_complete=complete_servers, help="Whose it is. Default: all are asked.")
@configured
def command(setup: CliSetup, name: str, arguments: tuple[str, ...], server: str | None) -> None:
    """Show the messages of the prompt of this NAME, filled in with these arguments."""
    for message in asyncio.run(_prompt(setup, name, parse_prompt_arguments(arguments), server)):
        if setup.view.as_json:
            answer_json(message)
        else:
            who, words = message_role_and_text(message)
            answer(who, "title")
            answer(text.printable_lines(words))


async def _prompt(setup: CliSetup, name: str, arguments: dict[str, str], server: str | None) -> tuple[Message, ...]:
    person = terminal_person()
    names = usable_servers(setup, person) if server is None else (server,)
    async with connect_servers(setup, names, person, all_needed=server is not None) as servers:
        return await prompt_anywhere({each: found.ensemble for each, found in servers.items()}, name, arguments)
