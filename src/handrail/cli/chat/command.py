"""`handrail chat`: a conversation with a model, with tools."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from handrail.app import model_names, open_app, settings_of
from handrail.cli import complete, text
from handrail.cli.chat.conversation import TERMS, CliChat
from handrail.cli.chat.line_input import ChatLineInput
from handrail.cli.chat.slash_commands import HELP
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import tell
from handrail.cli.resume import read_run_record
from handrail.cli.run_options import CliSetup, RunOptions, files_option, with_run_options
from handrail.config.values import Config
from handrail.core.messages import Conversation
from handrail.desk.desk import Desk
from handrail.desk.questions import PendingQuestions
from handrail.run.history import conversation_of


@click.command(
    "chat",
    epilog=examples(
        "handrail chat",
        "handrail chat -m openai:gpt-5 --tools tools.py",
        "handrail chat run_0193                 continue that conversation",
    ),
)
@click.argument("run", required=False, shell_complete=complete.runs)
@click.option("--system", metavar="TEXT", help="The system prompt.")
@files_option
@with_run_options
def command(setup: CliSetup, chosen: RunOptions, run: str | None, system: str | None, files: Path | None) -> None:
    r"""Chat with a model, with tools.

    Before a tool changes something, you are asked. Ctrl-C ends the turn; Ctrl-D or /quit ends the chat. /help lists the
    other commands. A line that ends in \ continues on the next line. With a RUN, its conversation continues.
    """
    known = run is not None
    going_on = None
    if run is not None:
        run, events = read_run_record(setup.view, run)
        going_on = run, conversation_of(events)
    setup = setup.adjusted(lambda config: _with_fallback(config, chosen))
    with asyncio.Runner() as loop:
        stack = AsyncExitStack()
        try:
            chat = loop.run(_open(stack, setup, chosen, going_on, system or "", files))
            tell(f"{_about(loop, chat)}. {HELP}")
            chat.talk(loop, ChatLineInput.here(setup.journal.parent / "chat-history"))
            known = chat.app.executor.runs.holds(chat.run) or (known and chat.run == run)
            loop.run(chat.leave())
        finally:
            loop.run(stack.aclose())
    if known:  # one in which nothing was said is not on record
        tell(f"run {text.printable(chat.run)}")


def _with_fallback(config: Config, chosen: RunOptions) -> Config:
    """The configuration in which the chosen model has the fallbacks of the command line."""
    if not chosen.fallback:
        return config
    name = chosen.model or model_names(config)[0]
    settings = replace(settings_of(config, name), fallback=chosen.fallback)
    return replace(config, models={**config.models, name: settings})


async def _open(
    stack: AsyncExitStack,
    setup: CliSetup,
    chosen: RunOptions,
    going_on: tuple[str, Conversation] | None,
    system: str,
    files: Path | None,
) -> CliChat:
    model = chosen.model or model_names(setup.config)[0]
    settings_of(setup.config, model)  # a mistake is told before anything is made
    opening = open_app(
        setup.config, setup.journal, chosen.wanted(setup.config), chosen.ask(), chosen.person(), adjust=setup.adjust
    )
    app = await stack.enter_async_context(opening)
    # Questions are asked at the terminal, by the approver of the app: none comes to the desk.
    desk = await stack.enter_async_context(Desk(app, PendingQuestions(), terms=TERMS))
    run = await desk.begin(model=model, system=system, run=going_on)
    resume_line = partial(chosen.resume_line, setup)
    return CliChat(desk, run, resume_line=resume_line, as_json=setup.view.as_json, files=files)


def _about(loop: asyncio.Runner, chat: CliChat) -> str:
    llm = loop.run(chat.desk.model(chat.run))
    tools = chat.desk.about().tools
    hint = "" if tools else " (--tools FILE.py adds some)"
    return f"{text.printable(llm.name)}, {text.count_text(tools, 'tool')}{hint}"
