"""Runs a prompt and shows it, and says how the run stands when it stops: done, waiting, or cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import click

from handrail.app import open_app, open_model
from handrail.cli import text
from handrail.cli.output.live_run import LiveRunPrinter
from handrail.cli.output.view import answer_json, tell
from handrail.cli.run_options import CliSetup, RunOptions
from handrail.cli.text import builtins
from handrail.core.confirmation import Confirmation
from handrail.core.context import Context
from handrail.core.errors import HandrailError, UsageError
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested, Recorded, RunResumed, RunStarted
from handrail.core.messages import AssistantMessage, Conversation, Usage, UserMessage
from handrail.execute.executor import Executor


def drive_run(
    setup: CliSetup,
    chosen: RunOptions,
    run: str,
    conversation: Conversation,
    before: Sequence[Recorded] = (),
    *,
    files: Path | None = None,
) -> None:
    """Let the model and the tools go on with a conversation to its end. `before` is what the record had of the run,
    `files` the folder for what the model makes.

    Raises:
        HandrailError: It ended before; how to take it up was told.
        UsageError: Somebody else went on with it since the record was read.
        KeyboardInterrupt: Likewise, on Ctrl-C.
        Exit: A call waits for a person, and the command has not done all of its work.
    """
    live = LiveRunPrinter(as_json=setup.view.as_json, files=files)
    try:
        conversation = asyncio.run(_work(setup, chosen, run, conversation, live, before))
    except (HandrailError, KeyboardInterrupt):
        live.end_line()
        if live.begun:
            tell(f"Interrupted; resume it with: {chosen.resume_line(setup, run)}")
        raise
    if setup.view.as_json:
        answer_json(_result(run, conversation, live))
    tell(f"run {text.printable(run)}")
    if live.unsaved:
        tell(f"Save what the model made with: handrail replay {text.printable(run)} --files FOLDER")
    if live.waiting:
        tell_waiting(live.waiting.values(), chosen.resume_line(setup, run))
        raise click.exceptions.Exit(1)


async def _work(
    setup: CliSetup,
    chosen: RunOptions,
    run: str,
    conversation: Conversation,
    live: LiveRunPrinter,
    before: Sequence[Recorded],
) -> Conversation:
    """The conversation as it is when the run stops."""
    async with (
        open_model(setup.config, chosen.model, chosen.fallback) as llm,
        open_app(setup.config, setup.journal, chosen.wanted(setup.config), chosen.ask(), chosen.person()) as app,
    ):
        if before:
            await _take_up(app.executor, run, before)
        if tools_of_run(before) not in (None, app.executor.tools.digest):
            tell("The tools are not the same as before; the record says with which tools the run continues.")
        # A model that goes on talking may say that it was done.
        if not is_answered(conversation):
            conversation = await app.runner(llm, on_wait="pause").run(conversation, Context(run=run), live)
        live.end_line()
        if not live.waiting:
            await app.executor.finish(run)
    return conversation


def _result(run: str, conversation: Conversation, live: LiveRunPrinter) -> dict[str, Any]:
    """What a program needs to know at the end, as the last line: no event has all of it."""
    asked = max((at for at, each in enumerate(conversation.messages) if isinstance(each, UserMessage)), default=-1)
    replies = [each for each in conversation.messages[asked + 1 :] if isinstance(each, AssistantMessage)]
    usage = reduce(Usage.plus, (each.usage for each in replies if each.usage is not None), Usage())
    waiting = [{"request": each.request, "tool": each.tool} for each in live.waiting.values()]
    return {
        "type": "result",
        "run": run,
        "state": "waiting" if waiting else "done",
        "text": replies[-1].text if replies and not waiting else "",
        "usage": builtins(usage),
        "waiting": waiting,
    }


async def _take_up(executor: Executor, run: str, before: Sequence[Recorded]) -> None:
    """Take the lease, and make sure that what is gone on from is still what there is."""
    await executor.runs.known_calls(Context(run=run))
    now = await executor.runs.history(run)
    ours = 1  # that it was taken up
    if _count_entries(now) - ours != _count_entries(before):
        raise UsageError(
            f"run {run!r} was continued by another process just now; to see it, run: handrail resume {run}"
        )


def _count_entries(events: Sequence[Recorded]) -> int:
    """How many entries there are, not counting a person's answers, which may be added at any time."""
    return sum(not isinstance(event, ConfirmationAnswered) for event in events)


def is_answered(conversation: Conversation) -> bool:
    """Whether the model has said its last word, so that there is nothing to go on with."""
    last = conversation.messages[-1] if conversation else None
    return isinstance(last, AssistantMessage) and last.stop not in ("max_tokens", "tool_calls")


def tools_of_run(events: Sequence[Recorded]) -> str | None:
    """The digest of the tools that the run had when it was last begun or taken up."""
    began = (event.tools for event in reversed(events) if isinstance(event, RunStarted | RunResumed))
    return next(began, None)


def tell_waiting(questions: Iterable[ConfirmationRequested | Confirmation], resume: str) -> None:
    for question in questions:
        tell(
            f"{text.printable(question.tool)} waits for approval. Allow it with:"
            f" handrail confirm allow {text.printable(question.request)}"
        )
    tell(f"Continue with: {resume}")
