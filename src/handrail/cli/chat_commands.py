"""What a person can type in a conversation that is not for the model: a table of words beginning with a slash."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from handrail.app import model_names
from handrail.cli import text
from handrail.cli.timeline import timeline
from handrail.cli.tools_list import effects
from handrail.cli.view import tell
from handrail.core.ids import new_id
from handrail.proof.audit import audit
from handrail.store.conversations import ConversationStore
from handrail.tools.finder import one_line

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
        tell(f"  {text.visible(tool.scoped_name)} ({effects(tool)}): {text.visible(one_line(tool))}")
    if not len(chat.app.tools):
        tell("  There are none; start with --tools, or configure ensembles.")


def _proof(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    """The calls of this run, and whether the whole journal verifies."""
    for line in timeline(loop.run(chat.app.journal.history(chat.run))):
        by = f", by the word of {text.visible(line.by)}" if line.by else ""
        arguments = text.inline(line.arguments, 60) if isinstance(line.arguments, dict) else "-"
        tell(f"  {text.time_of_day(line.at, utc=False)} {text.visible(line.tool)} {arguments}: {line.outcome}{by}")
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
    saved = ConversationStore(folder).save(chat.run, chat.conversation, title=rest or None)
    tell(f"Saved as {text.visible(saved.id)} ({text.visible(saved.title)}) in {text.visible(str(folder))}")


def _fork(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    before = chat.run
    loop.run(chat.fork(new_id("run")))
    tell(f"Now in run {chat.run}; the conversation so far stays in {text.visible(before)}.")


def _help(chat: Chat, loop: asyncio.Runner, rest: str) -> None:
    for name, command in COMMANDS.items():
        tell(f"  /{name:<6} {command.says}")
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
    "help": Command("this list", _help),
    "quit": Command("leave", _quit),
}
