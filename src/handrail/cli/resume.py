"""`handrail resume`: going on with a run that was cut off, or that waited for a person's decision."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from handrail.cli import complete, text
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import CommandView, answer, tell, with_output_file
from handrail.cli.run_driver import drive_run, is_answered
from handrail.cli.run_options import CliSetup, RunOptions, with_run_options
from handrail.core.errors import UsageError
from handrail.core.events import (
    CallAmended,
    CallIntended,
    CallSettled,
    ConfirmationAnswered,
    ConfirmationRequested,
    Recorded,
    RunFinished,
)
from handrail.core.ids import nested_id
from handrail.core.messages import Conversation, InvocationMessage, Message, ResultMessage
from handrail.rlm.repl.turns import REPL
from handrail.run.history import conversation_of


@cli_command("resume", "handrail resume run_0193", "handrail resume run_0193 -m openai:gpt-5 --tools tools.py")
@click.argument("run", shell_complete=complete.runs)
@with_run_options
@with_output_file
def command(setup: CliSetup, chosen: RunOptions, run: str) -> None:
    """Resume a run that was interrupted or waited for approval.

    Calls that have a result do not run again. A side effect that was running when the program ended is in doubt: the
    model is told so, and the call is not repeated. If you can find out whether it took effect, say so first, with
    handrail confirm settle. Use the same model and tools as before. A call that was approved in the meantime runs now;
    what the model said while it waited is removed.
    """
    run, events = read_run_record(setup.view, run)
    if is_rlm_run(run, events):
        raise UsageError(f"run {run!r} is a run of handrail rlm; resume it with: handrail rlm resume {run} --context …")
    conversation = conversation_of(events)
    if not conversation:
        raise UsageError(
            f"no model was asked in run {run!r}, so there is nothing to continue; a call that waited there"
            f" runs when its program asks for it again, as handrail tools call … --run {run} does"
        )
    at = _waits_at(conversation, events, anybody=sys.stdin.isatty() or chosen.yes)
    if at is not None:
        conversation = conversation.upto(at)
    elif isinstance(events[-1], RunFinished):
        tell(f"Run {text.printable(run)} has ended ({text.printable(events[-1].reason)}) with this answer:")
        answer(text.printable_lines(conversation.text))
        return
    elif waiting := _unanswered(events):
        raise UsageError(f"run {run!r} waits for approval; approve it with: handrail confirm allow {waiting[0]}")
    drive_run(setup, chosen, run, conversation, before=events)
    if is_answered(conversation):  # it was cut off between its answer and its end
        answer(text.printable_lines(conversation.text))


def read_run_record(view: CommandView, run: str) -> tuple[str, list[Recorded]]:
    """The run that is meant, and what the record has of it."""
    with view.reader() as reader:
        run = resolve_id(run, (each.run for each in reader.runs()), "run")
        return run, list(reader.events(run))


def is_rlm_run(run: str, events: Iterable[Recorded]) -> bool:
    """Whether a run is one of `handrail rlm`, which takes it up: it began with making a REPL ready."""
    first = nested_id(run, "setup-0")
    return any(isinstance(event, CallIntended) and (event.tool, event.call_id) == (REPL, first) for event in events)


def _waits_at(conversation: Conversation, events: list[Recorded], *, anybody: bool) -> int | None:
    """How much of the conversation stands before the model was told that a call waits, if it can now be answered."""
    settled = {event.call_id for event in events if isinstance(event, CallSettled | CallAmended)}
    answered = {event.call_id for event in events if isinstance(event, ConfirmationAnswered)}
    asked = {event.call_id for event in events if isinstance(event, ConfirmationRequested)}
    ready = (asked if anybody else answered) - settled
    messages = conversation.messages
    for at, message in enumerate(messages):
        if isinstance(message, InvocationMessage) and message.id in ready:
            while at < len(messages) and _stands(messages[at]):
                at += 1
            return at
    return None


def _stands(message: Message) -> bool:
    """Whether it is a call, or an answer other than that the call waits."""
    if isinstance(message, ResultMessage):
        return message.result.outcome != "needs_confirmation"
    return isinstance(message, InvocationMessage)


def _unanswered(events: list[Recorded]) -> list[str]:
    asked = {event.request: event.call_id for event in events if isinstance(event, ConfirmationRequested)}
    for event in events:
        match event:
            case ConfirmationAnswered(request=request):
                asked.pop(request, None)
            case CallSettled(call_id=call):
                asked = {request: each for request, each in asked.items() if each != call}
    return list(asked)
