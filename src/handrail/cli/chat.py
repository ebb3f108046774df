"""`handrail chat`: a conversation with a model, with tools."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import click

from handrail.app import open_app, open_model
from handrail.cli import complete, text
from handrail.cli.chat_commands import HELP
from handrail.cli.chat_input import Lines
from handrail.cli.chat_turns import Chat
from handrail.cli.groups import examples
from handrail.cli.reply_extras import files_option
from handrail.cli.resume import recorded
from handrail.cli.setup import Chosen, Setup, choosing
from handrail.cli.view import tell
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
@choosing
def command(setup: Setup, chosen: Chosen, run: str | None, system: str | None, files: Path | None) -> None:
    """Talk with a model, with tools.

    Before a tool changes something you are asked. Ctrl-C ends the turn, Ctrl-D or /quit the conversation; /help lists
    what else there is. A line that ends in \\ goes on in the next one. With a RUN, its conversation goes on.
    """
    conversation = Conversation() if system is None else Conversation().supervised(system)
    known = run is not None
    if run is None:
        run = new_id("run")
    else:
        run, events = recorded(setup.view, run)
        conversation = conversation_of(events)
    with asyncio.Runner() as loop:
        stack = AsyncExitStack()
        try:
            chat = loop.run(_open(stack, setup, chosen, run, conversation, files))
            _welcome(chat)
            chat.talk(loop, Lines.here(setup.journal.parent / "chat-history"))
            known = chat.app.executor.holds(chat.run) or (known and chat.run == run)
            loop.run(chat.leave())
        finally:
            loop.run(stack.aclose())
    if known:  # one in which nothing was said is not on record
        tell(f"run {text.visible(chat.run)}")


async def _open(
    stack: AsyncExitStack, setup: Setup, chosen: Chosen, run: str, conversation: Conversation, files: Path | None
) -> Chat:
    llm = await stack.enter_async_context(open_model(setup.config, chosen.model, chosen.fallback))
    wanted, ask = chosen.wanted(setup.config), chosen.ask()
    opening = open_app(setup.config, setup.journal, wanted, ask, chosen.person(), adjust=setup.adjust)
    app = await stack.enter_async_context(opening)
    return Chat(
        app,
        llm,
        run,
        conversation,
        stack=stack,
        resume_line=partial(chosen.resume_line, setup),
        as_json=setup.view.as_json,
        files=files,
    )


def _welcome(chat: Chat) -> None:
    tell(f"{text.visible(chat.llm.name)}, {text.count(len(chat.app.tools), 'tool')}. {HELP}")
