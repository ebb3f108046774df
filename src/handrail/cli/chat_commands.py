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
from handrail.cli.reply_extras import service_call_line
from handrail.cli.resources import all_prompts, all_resources, arguments_of, prompt_anywhere, read_anywhere, takes
from handrail.cli.timeline import timeline
from handrail.cli.view import tell
from handrail.core.errors import UsageError
from handrail.core.ids import new_id
from handrail.core.messages import AssistantMessage, Conversation, DocumentMessage, UserMessage
from handrail.mcp.client.ensemble import McpEnsemble
from handrail.proof.audit import audit
from handrail.store.conversations import ConversationStore
from handrail.tools.finder import one_line
from handrail.tools.masking import masked_messages

if TYPE_CHECKING:
    from handrail.cli.chat_turns import Chat

HELP = "/help lists the commands, Ctrl-D leaves."


class Command(Struct, frozen=True):
    says: str
    do: Callable[[Chat, asyncio.Runner, str], str | None]
    """Given what stands after the word; it returns words for the model, if it has some."""


def is_command(line: str) -> bool:
    """`//` begins words for the model that begin with a slash."""
    return line.startswith("/") and not line.startswith("//")


def do(chat: Chat, loop: asyncio.Runner, line: str) -> str | None:
    word, _, rest = line[1:].partition(" ")
    command = COMMANDS.get(word.strip())
    if command is None:
        near = difflib.get_close_matches(word, COMMANDS, n=1)
        tell(f"There is no /{text.visible(word)}; {f'did you mean /{near[0]}?' if near else HELP}")
        return None
    return command.do(chat, loop, rest.strip())


def _undo(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    words = chat.undo()
    tell("There is nothing to take back." if words is None else f"Taken back: {text.visible(text.short(words))}")
    if words is not None:
        tell("What tools did stays done, and on record.")


def _edit(chat: Chat, loop: asyncio.Runner, rest: str) -> str | None:
    """With words: say these instead. Without: the old ones stand on the next line."""
    words = chat.undo()
    if words is None:
        tell("There is nothing to change yet.")
        return None
    if not rest:
        chat.next_words = words
    return rest or None


def _tools(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    for tool in chat.app.tools:
        tell(f"  {text.visible(tool.scoped_name)} ({tool.effects}): {text.visible(one_line(tool))}")
    if not len(chat.app.tools):
        tell("  There are none; start with --tools, or configure ensembles.")


def _proof(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    """The calls of this run, and whether the whole journal verifies."""
    for line in timeline(loop.run(chat.app.journal.history(chat.run))):
        by = f", by the word of {text.visible(line.by)}" if line.by else ""
        arguments = text.inline(line.arguments, 60) if isinstance(line.arguments, dict) else "-"
        tell(f"  {text.time_of_day(line.at, utc=False)} {text.visible(line.tool)} {arguments}: {line.outcome}{by}")
    for message in chat.conversation.messages:
        for made in message.service_calls if isinstance(message, AssistantMessage) else ():
            tell(f"  {service_call_line(made)}")
    report = audit(chat.app.journal.path)
    word = "VERIFIED" if report.ok else "NOT VERIFIED; run: handrail proof verify"
    unsigned = f"{report.unsigned_tail} not signed yet"
    tell(f"  {word}: {text.count(report.entries, 'entry')}, {unsigned}; run {text.visible(chat.run)}")


def _model(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    if rest:
        loop.run(chat.use(rest))
    others = [name for name in model_names(chat.app.config) if name != rest]
    tell(f"The model is {text.visible(chat.llm.name)}. Others: {text.visible(', '.join(others)) or 'none configured'}.")


def _save(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    folder = chat.app.journal.path.parent
    masked = Conversation(masked_messages(chat.conversation.messages, chat.app.executor.tools_of(chat.run)))
    saved = ConversationStore(folder).save(chat.run, masked, title=rest or None)
    tell(f"Saved as {text.visible(saved.id)} ({text.visible(saved.title)}) in {text.visible(str(folder))}")


def _servers(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    for name, server in chat.app.servers.items():
        ensemble = server.ensemble
        state = text.visible(ensemble.problem) if ensemble.problem else text.count(len(ensemble.tools), "tool")
        tell(f"  {text.visible(name)}: {state}")
        for tool, why in ensemble.held.items():
            tell(f"    {text.visible(tool)} is held back: {text.visible(why)}")
    _tell_if_none(chat)


def _tell_if_none(chat: Chat) -> None:
    if not chat.app.servers:
        tell("  There are no servers; handrail mcp list says why, if some are configured.")


def _resources(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    _tell_if_none(chat)
    for name, found in loop.run(all_resources(_ensembles(chat))).items():
        if isinstance(found, str):
            tell(f"  {text.visible(name)}: {text.visible(found)}")
            continue
        for each in found:
            tell(f"  {text.visible(each.uri)} {text.visible(text.short(each.description or each.name))}")


def _read(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    """Give the model what stands at an address, as a document before the next words."""
    if not rest:
        tell("Which? /read URI; /resources lists them.")
        return
    for body in loop.run(read_anywhere(_ensembles(chat), rest)):
        if body.text is None:
            tell(f"  {text.visible(body.uri)} is no text ({text.visible(body.media_type)}), and was not taken.")
            continue
        document = DocumentMessage(body.uri, body.text, chat.app.executor.now(), source=body.uri)
        chat.conversation = chat.conversation.add(document)
        tell(f"  {text.visible(body.uri)}: {text.count(len(body.text), 'character')}, for the model to work with")


def _prompts(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    _tell_if_none(chat)
    for name, found in loop.run(all_prompts(_ensembles(chat))).items():
        if isinstance(found, str):
            tell(f"  {text.visible(name)}: {text.visible(found)}")
            continue
        for each in found:
            tell(f"  {text.visible(f'{name}:{takes(each)}')} {text.visible(text.short(each.description))}")


def _prompt(chat: Chat, loop: asyncio.Runner, rest: str) -> str | None:
    """The messages of a prompt; what the user says last in it is said now."""
    words = _words(rest)
    if not words:
        tell("Which? /prompt NAME KEY=VALUE; /prompts lists them.")
        return None
    messages = loop.run(prompt_anywhere(_ensembles(chat), words[0], arguments_of(words[1:])))
    chat.conversation = chat.conversation.add(*messages)
    if messages and isinstance(messages[-1], UserMessage):
        chat.answer(loop)
    else:
        tell(f"  {text.count(len(messages), 'message')}, for the model to work with; say something to it")
    return None


def _reload(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    """Files and servers are asked anew; a run keeps its tools, so with other ones another begins."""
    if not loop.run(chat.app.reload()) and chat.app.executor.tools_of(chat.run) is chat.app.tools:
        tell("Nothing is different.")
        return
    loop.run(chat.renew())
    tell(f"{text.count(len(chat.app.tools), 'tool')} from now on, in run {chat.run}.")


def _ensembles(chat: Chat) -> dict[str, McpEnsemble]:
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


def _fork(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    before = chat.run
    loop.run(chat.fork(new_id("run")))
    tell(f"Now in run {chat.run}; the conversation so far stays in {text.visible(before)}.")


def _help(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    for name, command in COMMANDS.items():
        tell(f"  /{name:<9} {command.says}")
    tell('  A line that ends in \\ goes on in the next; """ begins and ends several lines; // is a slash.')


def _quit(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    chat.over = True


COMMANDS = {
    "undo": Command("take back the last turn", _undo),
    "edit": Command("[WORDS] say the last thing otherwise", _edit),
    "tools": Command("what the model may call", _tools),
    "proof": Command("what was called, and whether the record verifies", _proof),
    "model": Command("[NAME] which model it is, or another from now on", _model),
    "save": Command("[TITLE] keep the conversation beside the journal", _save),
    "fork": Command("go on in a run of its own", _fork),
    "servers": Command("the MCP servers, and what is held back", _servers),
    "resources": Command("what the servers have to read", _resources),
    "read": Command("URI give the model what stands there", _read),
    "prompts": Command("what the servers have to say for you", _prompts),
    "prompt": Command("NAME [KEY=VALUE] say it", _prompt),
    "reload": Command("take up what changed in handrail.toml and in the servers", _reload),
    "help": Command("this list", _help),
    "quit": Command("leave", _quit),
}
