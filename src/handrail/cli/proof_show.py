"""`handrail proof show`: what happened in a run, or to one call."""

from __future__ import annotations

from collections.abc import Sequence

import click
from msgspec.structs import replace

from handrail.cli import complete, text
from handrail.cli.detail import print_call, print_entry
from handrail.cli.groups import examples
from handrail.cli.ids import resolve
from handrail.cli.proof_list import state
from handrail.cli.reply_extras import service_call_line
from handrail.cli.timeline import UNKNOWN, Line, timeline
from handrail.cli.view import Column, View, answer, answer_json, common, table
from handrail.core.errors import UsageError
from handrail.core.events import ReplyFailed, ReplyGiven, RunStarted
from handrail.core.messages import AssistantMessage
from handrail.proof.database import key_file
from handrail.proof.entry import place
from handrail.proof.read import Entry, Reader
from handrail.proof.views import RunSummary

_COLUMNS = (
    Column("time"),
    Column("call"),
    Column("tool"),
    Column("arguments", cut=True),
    Column("outcome"),
    Column("took", right=True),
    Column("confirmed by"),
)


@click.command(
    "show",
    epilog=examples(
        "handrail proof show run_0193",
        "handrail proof show run_0193 call_4f",
        "handrail proof show run_0193 call_4f --exact",
        "handrail proof show run_0193 --json | jq .type",
    ),
)
@click.argument("run", shell_complete=complete.runs)
@click.argument("call", required=False, shell_complete=complete.calls)
@click.option("--full", is_flag=True, help="Every entry, with arguments and results as they were recorded.")
@click.option(
    "--exact",
    is_flag=True,
    help="Arguments exactly as they were, also what looks like a secret. Needs the journal's key.",
)
@common
def command(view: View, run: str, call: str | None, full: bool, exact: bool) -> None:
    """Show a run as a timeline, or one CALL of it in detail.

    What looks like a secret is masked. Of the arguments that a person decided about and of those that ran, the journal
    also has the exact ones, encrypted; --exact shows them. Fields that are declared as secret are in no record.
    """
    with view.reader() as reader:
        runs = {each.run: each for each in reader.runs()}
        run = resolve(run, runs, "run")
        entries = list(reader.entries(run))
        if call is not None:
            call = resolve(call, (each.call for each in entries if each.call is not None), "call")
            entries = [each for each in entries if each.call == call]
        if exact:
            entries = [_exactly(reader, entry) for entry in entries]
        if view.as_json:
            for entry in entries:
                answer_json({"seq": entry.seq, "n": entry.n, **text.builtins(entry.event)})
        elif full:
            for entry in entries:
                print_entry(view, entry)
        elif call is not None:
            print_call(view, entries)
        else:
            _print_run(view, runs[run], entries)


def _exactly(reader: Reader, entry: Entry) -> Entry:
    """The entry with its exact body in place of the masked one.

    Raises:
        UsageError: The key is not there.
    """
    if place(entry.leaf).exact is None:
        return entry
    if reader.sealing is None:
        key = key_file(reader.path)
        raise UsageError(f"exact arguments are shown only to who can read the journal's key, {str(key)!r}")
    return replace(entry, data=reader.exact(entry, reader.sealing))


def _print_run(view: View, summary: RunSummary, entries: Sequence[Entry]) -> None:
    events = [entry.event for entry in entries]
    lines = timeline(events)
    answer(f"run {text.visible(summary.run)}", "title")
    for event in events:
        if isinstance(event, RunStarted):
            answer(f"for {text.visible(event.principal)}, with the tools {text.visible(event.tools)}", "dim")
    answer(f"began {view.when(summary.started)}, last entry {view.when(summary.last)}")
    waiting = sum(line.outcome.startswith("waiting") for line in lines)
    answer(f"{text.count(summary.calls, 'call')} answered, {summary.errors} not ok; state: {state(summary, waiting)}")
    if lines:
        answer()
        shown = view.ids(line.call_id for line in lines)
        days = {text.day(line.at, view.utc) for line in lines}
        table(_COLUMNS, [_row(view, line, shown[line.call_id], len(days) == 1) for line in lines])
    _print_service_calls(view, [event for event in events if isinstance(event, ReplyGiven)])
    _print_failures(view, [event for event in events if isinstance(event, ReplyFailed)])


def _print_service_calls(view: View, replies: Sequence[ReplyGiven]) -> None:
    """What the services of models ran themselves: it is on record only as the service told it."""
    said = [(reply, message) for reply in replies for message in reply.messages or ()]
    calls = [
        (reply, made)
        for reply, message in said
        if isinstance(message, AssistantMessage)
        for made in message.service_calls
    ]
    if calls:
        answer()
        answer(f"{text.count(len(calls), 'call')} that the service ran, as it told:")
        for reply, made in calls:
            answer(f"  {view.when(reply.at)}  {service_call_line(made)}")


def _print_failures(view: View, failures: Sequence[ReplyFailed]) -> None:
    if not failures:
        return
    answer()
    answer(f"{text.count(len(failures), 'attempt')} at a reply failed:")
    for each in failures:
        then = "given up" if each.delay_ms is None else f"again after {text.duration(each.delay_ms * 1000)}"
        words = "[erased]" if each.words is None else text.visible(text.short(each.words, 200))
        model, error = text.visible(each.model), text.visible(each.error)
        answer(f"  {view.when(each.at)}  {model}, attempt {each.attempt}: {error}, {then}: {words}")


def _row(view: View, line: Line, shown: str, one_day: bool) -> tuple[str, ...]:
    match line.arguments:
        case None:
            arguments = "[erased]"
        case _ if line.arguments is UNKNOWN:
            arguments = "-"
        case _:
            arguments = text.inline(line.arguments, 100)
    return (
        text.time_of_day(line.at, view.utc) if one_day else view.when(line.at),
        text.visible(shown),
        text.visible(line.tool),
        arguments,
        line.outcome,
        "-" if line.took is None else text.duration(line.took),
        text.visible(line.by) or "-",
    )
