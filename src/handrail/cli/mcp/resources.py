"""`handrail mcp read` and `prompt`: resources and prompts of whichever server has them."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

import click
from msgspec.structs import replace

from handrail.cli import text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.mcp.server_selection import complete_servers, connect_servers, usable_servers
from handrail.cli.output.view import answer, answer_json, is_terminal, with_output_file
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.terminal.person import terminal_person
from handrail.core.errors import McpError, UsageError
from handrail.core.messages import AssistantMessage, DocumentMessage, Media, Message, Text, UserMessage
from handrail.mcp.client.ensemble import McpEnsemble
from handrail.mcp.values import RemotePrompt, RemoteResource, ResourceBody

T = TypeVar("T")
Servers = Mapping[str, McpEnsemble]


@cli_command("read", "handrail mcp read file:///notes.md", "handrail mcp read demo://picture --server demo > x.png")
@click.argument("uri")
@click.option(
    "--server",
    metavar="NAME",
    shell_complete=complete_servers,
    help="The server that has it. Default: ask all servers.",
)
@configured
@with_output_file
def read(setup: CliSetup, uri: str, server: str | None) -> None:
    """Read the resource at this URI from the server that has it."""
    for body in asyncio.run(_asking(setup, server, lambda servers: read_anywhere(servers, uri))):
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


async def _asking(setup: CliSetup, server: str | None, ask: Callable[[Servers], Awaitable[T]]) -> T:
    """What the server of this name says, or without a name all that may be used."""
    person = terminal_person()
    names = usable_servers(setup, person) if server is None else (server,)
    async with connect_servers(setup, names, person, all_needed=server is not None) as servers:
        return await ask({name: each.ensemble for name, each in servers.items()})


@cli_command("prompt", "handrail mcp prompt review path=src/app.py", "handrail mcp prompt review --server code --json")
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]…")
@click.option(
    "--server",
    metavar="NAME",
    shell_complete=complete_servers,
    help="The server that has it. Default: ask all servers.",
)
@configured
@with_output_file
def prompt(setup: CliSetup, name: str, arguments: tuple[str, ...], server: str | None) -> None:
    """Show the messages of the prompt NAME with these arguments filled in."""
    given = parse_prompt_arguments(arguments)
    for message in asyncio.run(_asking(setup, server, lambda servers: prompt_anywhere(servers, name, given))):
        if setup.view.as_json:
            answer_json(message)
        else:
            who, words = message_role_and_text(message)
            answer(who, "title")
            answer(text.printable_lines(words))


async def all_resources(servers: Servers) -> dict[str, list[RemoteResource] | str]:
    """The resources of each server, or the error of a server that cannot list them."""
    return {name: await _or_why(server.resources()) for name, server in servers.items()}


async def all_prompts(servers: Servers) -> dict[str, list[RemotePrompt] | str]:
    """The prompts of each server, or the error of a server that cannot list them."""
    return {name: await _or_why(server.prompts()) for name, server in servers.items()}


async def _or_why(asked: Awaitable[list[T]]) -> list[T] | str:
    try:
        return await asked
    except McpError as error:
        return error.why


async def read_anywhere(servers: Servers, uri: str) -> list[ResourceBody]:
    """Reads from the server that lists the address; else from the first that has something there.

    Raises:
        UsageError: None has.
    """
    listed = await all_resources(servers)
    owners = [name for name, found in listed.items() if not isinstance(found, str) and any(r.uri == uri for r in found)]
    why = []
    for name in dict.fromkeys((*owners, *servers)):
        try:
            return await servers[name].read(uri)
        except McpError as error:
            why.append(str(error))
    raise UsageError(f"no server has anything at {uri!r}: {'; '.join(why) or 'there are no servers'}")


async def prompt_anywhere(servers: Servers, name: str, arguments: Mapping[str, str]) -> tuple[Message, ...]:
    """The messages of a prompt, named alone or as `server:prompt`.

    Raises:
        UsageError: No server has it, several have, or an argument is missing or unknown.
    """
    listed = await all_prompts(servers)
    found = {
        server: prompt
        for server, prompts in listed.items()
        for prompt in _those(prompts)
        if name in (prompt.name, f"{server}:{prompt.name}")
    }
    if len(found) != 1:
        known = [f"{server}:{each.name}" for server, prompts in listed.items() for each in _those(prompts)]
        what = f"several servers have a prompt {name!r}" if found else f"no server has a prompt {name!r}"
        raise UsageError(f"{what}; there are {', '.join(known) or 'none'}")
    ((server, prompt),) = found.items()
    taken = {argument for argument, _, _ in prompt.arguments}
    needed = {argument for argument, _, required in prompt.arguments if required}
    if strange := sorted(set(arguments) - taken):
        raise UsageError(f"{name!r} takes no {', '.join(strange)}; it takes {', '.join(sorted(taken)) or 'nothing'}")
    if missing := sorted(needed - set(arguments)):
        raise UsageError(f"{name!r} needs {' '.join(f'{each}=…' for each in missing)}")
    messages = await servers[server].prompt(prompt.name, arguments)
    return tuple(_from_outside(message, f"{server}:{prompt.name}") for message in messages)


def _from_outside(message: Message, source: str) -> Message:
    """The same message, known as words of a server: a side effect after them is put to a person."""
    if isinstance(message, UserMessage | AssistantMessage | DocumentMessage):
        return replace(message, source=source)
    return message


def _those(prompts: list[RemotePrompt] | str) -> list[RemotePrompt]:
    return [] if isinstance(prompts, str) else prompts


def prompt_usage(prompt: RemotePrompt) -> str:
    """How a prompt is written: its name and arguments, in brackets those that may be left out."""
    arguments = (f"{name}=" if needed else f"[{name}=]" for name, _, needed in prompt.arguments)
    return " ".join((prompt.name, *arguments))


def parse_prompt_arguments(words: Iterable[str]) -> dict[str, str]:
    """`key=value` words.

    Raises:
        UsageError: One of them is none.
    """
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f"{word!r} is not an argument; write KEY=VALUE")
        found[key] = value
    return found


def message_role_and_text(message: Message) -> tuple[str, str]:
    """The role of a message, and its text."""
    match message:
        case UserMessage(content=content):
            parts = (part.text if isinstance(part, Text) else _media(part) for part in content)
            return "user", "\n".join(parts)
        case AssistantMessage(text=text):
            return "assistant", text
    return type(message).__name__.removesuffix("Message").lower(), getattr(message, "text", "")


def _media(part: Media) -> str:
    return f"({part.media_type} {part.name})".replace(" )", ")")
