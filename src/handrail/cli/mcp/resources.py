"""Resources and prompts of whichever server has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from handrail.core.errors import McpError, UsageError
from handrail.core.messages import AssistantMessage, DocumentMessage, Media, Message, Text, UserMessage
from handrail.mcp.client.ensemble import McpEnsemble
from handrail.mcp.values import RemotePrompt, RemoteResource, ResourceBody

Servers = Mapping[str, McpEnsemble]


async def all_resources(servers: Servers) -> dict[str, list[RemoteResource] | str]:
    """By server; of one that cannot tell, why."""
    found: dict[str, list[RemoteResource] | str] = {}
    for name, server in servers.items():
        try:
            found[name] = await server.resources()
        except McpError as error:
            found[name] = error.why
    return found


async def all_prompts(servers: Servers) -> dict[str, list[RemotePrompt] | str]:
    """By server; of one that cannot tell, why."""
    found: dict[str, list[RemotePrompt] | str] = {}
    for name, server in servers.items():
        try:
            found[name] = await server.prompts()
        except McpError as error:
            found[name] = error.why
    return found


async def read_anywhere(servers: Servers, uri: str) -> list[ResourceBody]:
    """Of the server that lists the address; else of the first that has something there.

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
        for prompt in (() if isinstance(prompts, str) else prompts)
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
            raise UsageError(f"{word!r} is no argument; write KEY=VALUE")
        found[key] = value
    return found


def message_role_and_text(message: Message) -> tuple[str, str]:
    """Who says a message, and its words."""
    match message:
        case UserMessage(content=content):
            parts = (part.text if isinstance(part, Text) else _media(part) for part in content)
            return "user", "\n".join(parts)
        case AssistantMessage(text=text):
            return "assistant", text
    return type(message).__name__.removesuffix("Message").lower(), getattr(message, "text", "")


def _media(part: Media) -> str:
    return f"({part.media_type} {part.name})".replace(" )", ")")
