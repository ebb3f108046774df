"""What a person can type in a conversation that is not for the model: a table of words beginning with a slash."""

from __future__ import annotations

import asyncio
import difflib
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from handrail.app import model_names
from handrail.cli import text
from handrail.cli.mcp.resources import (
    all_prompts,
    all_resources,
    parse_prompt_arguments,
    prompt_anywhere,
    prompt_usage,
    read_anywhere,
)
from handrail.cli.output.reply_extras import service_call_line
from handrail.cli.output.timeline import timeline
from handrail.cli.output.view import tell
from handrail.core.errors import UsageError
from handrail.core.messages import AssistantMessage, DocumentMessage, UserMessage
from handrail.journal.auditing import audit
from handrail.mcp.client.ensemble import McpEnsemble
from handrail.tools.finder import description_line

if TYPE_CHECKING:
    from handrail.cli.chat.conversation import CliChat

HELP = "/help lists the commands, Ctrl-D leaves."


class SlashCommand(Struct, frozen=True):
    says: str
    do: Callable[[CliChat, asyncio.Runner, str], str | None]
    """Given what stands after the word; it returns words for the model, if it has some."""


def is_command(line: str) -> bool:
    """`//` begins words for the model that begin with a slash."""
    return line.startswith("/") and not line.startswith("//")


def do(chat: CliChat, loop: asyncio.Runner, line: str) -> str | None:
    word, _, rest = line[1:].partition(" ")
    command = COMMANDS.get(word.strip())
    if command is None:
        near = difflib.get_close_matches(word, COMMANDS, n=1)
        tell(f"There is no /{text.printable(word)}; {f'did you mean /{near[0]}?' if near else HELP}")
        return None
    return command.do(chat, loop, rest.strip())


def _undo(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    words = loop.run(chat.undo())
    tell("There is nothing to undo." if words is None else f"Undone: {text.printable(text.short(words))}")
    if words is not None:
        tell("Side effects of tools are not reversed, and stay in the record.")


def _edit(chat: CliChat, loop: asyncio.Runner, rest: str) -> str | None:
    """With words: say these instead. Without: the old ones stand on the next line."""
    words = loop.run(chat.undo())
    if words is None:
        tell("There is nothing to change yet.")
        return None
    if not rest:
        chat.next_words = words
    return rest or None


def _tools(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    for tool in chat.app.tools:
        tell(f"  {text.printable(tool.scoped_name)} ({tool.effects}): {text.printable(description_line(tool))}")
    if not len(chat.app.tools):
        tell("  There are none; start with --tools, or configure ensembles.")


def _proof(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    """The calls of this run, and whether the whole journal verifies."""
    for line in timeline(loop.run(chat.app.journal.history(chat.run))):
        by = f"{'' if line.outcome == 'denied' else ', approved'} by {text.printable(line.by)}" if line.by else ""
        arguments = text.inline(line.arguments, 60) if isinstance(line.arguments, dict) else "-"
        tell(f"  {text.time_of_day(line.at, utc=False)} {text.printable(line.tool)} {arguments}: {line.outcome}{by}")
    for message in loop.run(chat.desk.conversation(chat.run)).messages:
        for made in message.service_calls if isinstance(message, AssistantMessage) else ():
            tell(f"  {service_call_line(made)}")
    report = audit(chat.app.journal.path)
    word = "VERIFIED" if report.ok else "NOT VERIFIED; run: handrail proof verify"
    unsigned = f"{report.unsigned_tail} not signed yet"
    tell(f"  {word}: {text.count_text(report.entries, 'entry')}, {unsigned}; run {text.printable(chat.run)}")


def _model(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    llm = loop.run(chat.desk.model(chat.run, rest))  # first, so that one that is not available is not chosen
    if rest:
        loop.run(chat.desk.choose(chat.run, model=rest))
    others = [name for name in model_names(chat.app.config) if name != rest]
    tell(f"The model is {text.printable(llm.name)}. Others: {text.printable(', '.join(others)) or 'none configured'}.")


def _save(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    folder, saved = chat.app.state.folder, loop.run(chat.desk.save(chat.run, rest or None))
    tell(f"Saved as {text.printable(saved.id)} ({text.printable(saved.title)}) in {text.printable(str(folder))}")


def _servers(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    for name, server in chat.app.servers.items():
        ensemble = server.ensemble
        state = text.printable(ensemble.problem) if ensemble.problem else text.count_text(len(ensemble.tools), "tool")
        tell(f"  {text.printable(name)}: {state}")
        for tool, why in ensemble.held.items():
            tell(f"    {text.printable(tool)} is withheld: {text.printable(why)}")
    _tell_if_none(chat)


def _tell_if_none(chat: CliChat) -> None:
    if not chat.app.servers:
        tell("  There are no servers; handrail mcp list says why, if some are configured.")


def _resources(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    _tell_if_none(chat)
    for name, found in loop.run(all_resources(_ensembles(chat))).items():
        if isinstance(found, str):
            tell(f"  {text.printable(name)}: {text.printable(found)}")
            continue
        for each in found:
            tell(f"  {text.printable(each.uri)} {text.printable(text.short(each.description or each.name))}")


def _read(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    """Give the model what stands at an address, as a document before the next words."""
    if not rest:
        tell("Name one: /read URI. /resources lists them.")
        return
    for body in loop.run(read_anywhere(_ensembles(chat), rest)):
        if body.text is None:
            tell(f"  {text.printable(body.uri)} is not text ({text.printable(body.media_type)}), and is not used.")
            continue
        document = DocumentMessage(body.uri, body.text, chat.app.executor.runs.now(), source=body.uri)
        loop.run(chat.desk.add(chat.run, (document,)))
        tell(
            f"  {text.printable(body.uri)}: {text.count_text(len(body.text), 'character')}, for the model to work with"
        )


def _prompts(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    _tell_if_none(chat)
    for name, found in loop.run(all_prompts(_ensembles(chat))).items():
        if isinstance(found, str):
            tell(f"  {text.printable(name)}: {text.printable(found)}")
            continue
        for each in found:
            tell(f"  {text.printable(f'{name}:{prompt_usage(each)}')} {text.printable(text.short(each.description))}")


def _prompt(chat: CliChat, loop: asyncio.Runner, rest: str) -> str | None:
    """The messages of a prompt; what the user says last in it is said now."""
    words = _words(rest)
    if not words:
        tell("Name one: /prompt NAME KEY=VALUE. /prompts lists them.")
        return None
    messages = loop.run(prompt_anywhere(_ensembles(chat), words[0], parse_prompt_arguments(words[1:])))
    loop.run(chat.desk.add(chat.run, messages))
    if messages and isinstance(messages[-1], UserMessage):
        chat.answer(loop)
    else:
        tell(f"  {text.count_text(len(messages), 'message')}, for the model to work with; write a prompt")
    return None


def _reload(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    """Files and servers are asked again; a run keeps its tools, so with other ones another begins."""
    if not loop.run(chat.app.reload()) and chat.app.executor.runs.tools_of(chat.run) is chat.app.tools:
        tell("Nothing has changed.")
        return
    loop.run(chat.fork())
    tell(f"{text.count_text(len(chat.app.tools), 'tool')} from now on, in run {chat.run}.")


def _ensembles(chat: CliChat) -> dict[str, McpEnsemble]:
    return {name: server.ensemble for name, server in chat.app.servers.items()}


def _words(words: str) -> list[str]:
    """As a shell would, so that a value may have spaces.

    Raises:
        UsageError: A quote is open.
    """
    try:
        return shlex.split(words)
    except ValueError as error:
        raise UsageError(f"{words!r}: {error}") from error


def _fork(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    before = chat.run
    loop.run(chat.fork())
    tell(f"Now in run {chat.run}; the conversation so far stays in {text.printable(before)}.")


def _help(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    for name, command in COMMANDS.items():
        tell(f"  /{name:<9} {command.says}")
    tell('  A line that ends in \\ continues in the next; """ begins and ends several lines; // is a slash.')


def _quit(chat: CliChat, loop: asyncio.Runner, rest: str) -> None:
    chat.over = True


COMMANDS = {
    "undo": SlashCommand("undo the last turn", _undo),
    "edit": SlashCommand("[WORDS] replace your last prompt", _edit),
    "tools": SlashCommand("what the model may call", _tools),
    "proof": SlashCommand("what was called, and whether the record verifies", _proof),
    "model": SlashCommand("[NAME] show the model, or change it", _model),
    "save": SlashCommand("[TITLE] save the conversation next to the journal", _save),
    "fork": SlashCommand("continue in a new run", _fork),
    "servers": SlashCommand("the MCP servers, and which tools are withheld", _servers),
    "resources": SlashCommand("the resources of the servers", _resources),
    "read": SlashCommand("URI give a resource to the model", _read),
    "prompts": SlashCommand("the prompts of the servers", _prompts),
    "prompt": SlashCommand("NAME [KEY=VALUE] use a prompt", _prompt),
    "reload": SlashCommand("apply changes of handrail.toml and of the servers", _reload),
    "help": SlashCommand("this list", _help),
    "quit": SlashCommand("leave", _quit),
}
