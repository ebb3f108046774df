"""Having a run done and shown, and saying how it stands when it stops: done, waiting, or cut off."""

from __future__ import annotations

import asyncio

import click

from handrail.app import open_app, open_model
from handrail.cli import text
from handrail.cli.live import Live
from handrail.cli.setup import Chosen, Setup
from handrail.cli.view import tell
from handrail.core.context import Context
from handrail.core.errors import HandrailError
from handrail.core.messages import Conversation


def work(setup: Setup, chosen: Chosen, run: str, conversation: Conversation, tools: str | None = None) -> None:
    """Let the model and the tools go on with a conversation to its end. `tools` is the digest of those it had before.

    Raises:
        HandrailError: It ended before; how to take it up was told.
        KeyboardInterrupt: Likewise, on Ctrl-C.
        Exit: A call waits for a person, and the command has not done all of its work.
    """
    live = Live(as_json=setup.view.as_json)
    try:
        asyncio.run(_work(setup, chosen, run, conversation, live, tools))
    except (HandrailError, KeyboardInterrupt):
        live.end_line()
        if live.begun:
            tell(f"Cut off; take it up with: {chosen.resume_line(setup, run)}")
        raise
    tell(f"run {text.visible(run)}")
    if live.waiting:
        tell_waiting(live, chosen.resume_line(setup, run))
        raise click.exceptions.Exit(1)


async def _work(
    setup: Setup, chosen: Chosen, run: str, conversation: Conversation, live: Live, tools: str | None
) -> None:
    async with (
        open_model(setup.config, chosen.model) as llm,
        open_app(setup.config, setup.journal, chosen.wanted(setup.config), chosen.ask()) as app,
    ):
        if tools not in (None, app.executor.tools.digest):
            tell("These are not the tools that the run had before; the record says which it goes on with.")
        # A model that goes on talking may say that it was done.
        await app.runner(llm, on_wait="pause").run(conversation, Context(run=run), live)
        live.end_line()
        if not live.waiting:
            await app.executor.finish(run)


def tell_waiting(live: Live, resume: str) -> None:
    for question in live.waiting.values():
        tell(
            f"{text.visible(question.tool)} waits for a person's word. Allow it with:"
            f" handrail confirm allow {text.visible(question.request)}"
        )
    tell(f"Then go on with: {resume}")
