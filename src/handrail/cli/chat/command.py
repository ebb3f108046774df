"""`handrail chat`: a conversation with a model, with tools."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import click

from handrail.app import open_app, open_model
from handrail.cli import complete, text
from handrail.cli.chat.conversation import CliChat
from handrail.cli.chat.line_input import ChatLineInput
from handrail.cli.chat.slash_commands import HELP
from handrail.cli.lazy_groups import examples
from handrail.cli.output.reply_extras import files_option
from handrail.cli.output.view import tell
from handrail.cli.resume import read_run_record
from handrail.cli.run_options import CliSetup, RunOptions, with_run_options
from handrail.core.ids import new_id
from handrail.core.messages import Conversation
from handrail.run.history import conversation_of


@click.command(
    "chat",
    epilog=examples(
        "handrail chat",
        "handrail chat -m openai:gpt-5 --tools tools.py",
        "handrail chat run_0193                 go on with that conversation",
    ),
)
@click.argument("run", required=False, shell_complete=complete.runs)
@click.option("--system", metavar="TEXT", help="What the model is told before everything else.")
@files_option
@with_run_options
def command(setup: CliSetup, chosen: RunOptions, run: str | None, system: str | None, files: Path | None) -> None:
    """Talk with a model, with tools.

    Before a tool changes something you are asked. Ctrl-C ends the turn, Ctrl-D or /quit the conversation; /help lists
    what else there is. A line that ends in \\ goes on in the next one. With a RUN, its conversation goes on.
    """
    conversation = Conversation() if system is None else Conversation().supervised(system)
    known = run is not None
    if run is None:
        run = new_id("run")
    else:
        run, events = read_run_record(setup.view, run)
        conversation = conversation_of(events)
    with asyncio.Runner() as loop:
        stack = AsyncExitStack()
        try:
            chat = loop.run(_open(stack, setup, chosen, run, conversation, files))
            _welcome(chat)
            chat.talk(loop, ChatLineInput.here(setup.journal.parent / "chat-history"))
            known = chat.app.executor.holds(chat.run) or (known and chat.run == run)
            loop.run(chat.leave())
        finally:
            loop.run(stack.aclose())
    if known:  # one in which nothing was said is not on record
        tell(f"run {text.printable(chat.run)}")


async def _open(
    stack: AsyncExitStack, setup: CliSetup, chosen: RunOptions, run: str, conversation: Conversation, files: Path | None
) -> CliChat:
    llm = await stack.enter_async_context(open_model(setup.config, chosen.model, chosen.fallback))
    wanted, ask = chosen.wanted(setup.config), chosen.ask()
    opening = open_app(setup.config, setup.journal, wanted, ask, chosen.person(), adjust=setup.adjust)
    app = await stack.enter_async_context(opening)
    return CliChat(
        app,
        llm,
        run,
        conversation,
        stack=stack,
        resume_line=partial(chosen.resume_line, setup),
        as_json=setup.view.as_json,
        files=files,
    )


def _welcome(chat: CliChat) -> None:
    tell(f"{text.printable(chat.llm.name)}, {text.count_text(len(chat.app.tools), 'tool')}. {HELP}")
