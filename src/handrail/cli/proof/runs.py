"""`handrail proof list`, `show` and `stats`: the runs of a journal, what happened in one, and how the tools did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click
from msgspec.structs import replace

from handrail.cli import complete, text
from handrail.cli.complete import runs
from handrail.cli.ids import above, resolve_id
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.reply_extras import service_call_line
from handrail.cli.output.timeline import UNKNOWN, TimelineLine, print_call, print_entry, timeline
from handrail.cli.output.view import (
    CommandView,
    answer,
    answer_json,
    columns,
    table,
    tell,
    with_common_options,
    with_output_file,
)
from handrail.cli.text import builtins, count_text, dashed, printable
from handrail.core.errors import UsageError
from handrail.core.events import ReplyFailed, ReplyGiven, RunStarted
from handrail.core.messages import AssistantMessage
from handrail.journal.database import key_file
from handrail.journal.entry import leaf_position
from handrail.journal.reader import JournalReader, JournalRow
from handrail.journal.summaries import RunSummary
from handrail.journal.telemetry import ModelTelemetry, Telemetry, ToolTelemetry
from handrail.state.url import StateUrl

_RUNS = columns(
    "run",
    "started",
    "calls",
    "failed",
    "in doubt",
    "waiting",
    "state",
    right=("calls", "failed", "in doubt", "waiting"),
)


@cli_command(
    "list",
    "handrail proof list",
    "handrail proof list --last 5 --utc",
    "handrail proof list --json | jq 'select(.in_doubt > 0)'",
)
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the N latest runs.")
@click.option(
    "--all", "whole", is_flag=True, help="Include runs that other runs began, such as the sub-queries of handrail rlm."
)
@with_common_options
@with_output_file
def list_runs(view: CommandView, last: int | None, whole: bool) -> None:
    """List the runs: when they began, how their calls ended, and what is waiting.

    A run is `open` until its program says that it ended: it may still be running, or it was interrupted.
    """
    with view.reader() as reader:
        every = reader.runs()
        waiting = Counter(question.run for question in reader.pending())
    top = set(above(run.run for run in every))
    # What somebody has to look at is never left out.
    runs = [run for run in every if whole or run.run in top or run.in_doubt or waiting[run.run]]
    chosen = runs if last is None else runs[-last:]
    if view.wrote_json(
        *({**builtins(run), "waiting": waiting[run.run], "state": run_state(run, waiting[run.run])} for run in chosen)
    ):
        return
    if not chosen:
        tell("The journal has no runs yet.")
        return
    shown = view.ids(run.run for run in runs)
    table(_RUNS, [_of_run(view, run, shown[run.run], waiting[run.run]) for run in chosen])
    if len(runs) < len(every):
        tell(f"{count_text(len(every) - len(runs), 'run')} that these began are left out; --all lists them.")


def run_state(run: RunSummary, waiting: int) -> str:
    if run.finished is not None:
        return printable(run.finished)
    if waiting:
        return "waiting"
    return f"open, {run.open} unanswered" if run.open else "open"


def _of_run(view: CommandView, run: RunSummary, shown: str, waiting: int) -> tuple[str, ...]:
    numbers = (run.calls, run.errors, run.in_doubt, waiting)
    return printable(shown), view.when(run.started), *map(dashed, numbers), run_state(run, waiting)


_CALLS = columns(
    "time", "call", "tool", "arguments", "outcome", "took", "confirmed by", right=("took",), cut="arguments"
)


@cli_command(
    "show",
    "handrail proof show run_0193",
    "handrail proof show run_0193 call_4f",
    "handrail proof show run_0193 call_4f --exact",
    "handrail proof show run_0193 --json | jq .type",
)
@click.argument("run", shell_complete=complete.runs)
@click.argument("call", required=False, shell_complete=complete.calls)
@click.option("--full", is_flag=True, help="Show every entry, with the recorded arguments and results.")
@click.option(
    "--exact",
    is_flag=True,
    help="Show the exact arguments, including text that looks like a secret. Needs the key of the journal.",
)
@with_common_options
@with_output_file
def show(view: CommandView, run: str, call: str | None, full: bool, exact: bool) -> None:
    """Show a run as a timeline, or one CALL of it in detail.

    Text that looks like a secret is masked. The journal also has the exact arguments that a person decided about and
    that ran, encrypted; --exact shows them. Fields that a tool declares as secret are never recorded.
    """
    with view.reader() as reader:
        runs = {each.run: each for each in reader.runs()}
        run = resolve_id(run, runs, "run")
        entries = list(reader.entries(run))
        if call is not None:
            call = resolve_id(call, (each.call for each in entries if each.call is not None), "call")
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


def _exactly(reader: JournalReader, entry: JournalRow) -> JournalRow:
    """The entry with its exact body in place of the masked one.

    Raises:
        UsageError: The key is not there.
    """
    if leaf_position(entry.leaf).exact is None:
        return entry
    if reader.sealing is None:
        key = "which is in it" if isinstance(reader.path, StateUrl) else repr(str(key_file(reader.path)))
        raise UsageError(f"exact arguments are shown only to who can read the journal's key, {key}")
    return replace(entry, data=reader.exact(entry, reader.sealing))


def _print_run(view: CommandView, summary: RunSummary, entries: Sequence[JournalRow]) -> None:
    events = [entry.event for entry in entries]
    lines = timeline(events)
    answer(f"run {text.printable(summary.run)}", "title")
    for event in events:
        if isinstance(event, RunStarted):
            answer(f"for {text.printable(event.principal)}, with the tools {text.printable(event.tools)}", "dim")
    answer(f"began {view.when(summary.started)}, last entry {view.when(summary.last)}")
    waiting = sum(line.outcome.startswith("waiting") for line in lines)
    answer(
        f"{text.count_text(summary.calls, 'call')} answered, {summary.errors} not ok; "
        f"state: {run_state(summary, waiting)}"
    )
    if lines:
        answer()
        shown = view.ids(line.call_id for line in lines)
        days = {text.day(line.at, view.utc) for line in lines}
        table(_CALLS, [_of_call(view, line, shown[line.call_id], len(days) == 1) for line in lines])
    _print_service_calls(view, [event for event in events if isinstance(event, ReplyGiven)])
    _print_failures(view, [event for event in events if isinstance(event, ReplyFailed)])


def _print_service_calls(view: CommandView, replies: Sequence[ReplyGiven]) -> None:
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
        answer(f"{text.count_text(len(calls), 'call')} that the service ran, as it told:")
        for reply, made in calls:
            answer(f"  {view.when(reply.at)}  {service_call_line(made)}")


def _print_failures(view: CommandView, failures: Sequence[ReplyFailed]) -> None:
    if not failures:
        return
    answer()
    answer(f"{text.count_text(len(failures), 'attempt')} at a reply failed:")
    for each in failures:
        then = "given up" if each.delay_ms is None else f"again after {text.duration_text(each.delay_ms * 1000)}"
        words = "[erased]" if each.words is None else text.printable(text.short(each.words, 200))
        model, error = text.printable(each.model), text.printable(each.error)
        answer(f"  {view.when(each.at)}  {model}, attempt {each.attempt}: {error}, {then}: {words}")


def _of_call(view: CommandView, line: TimelineLine, shown: str, one_day: bool) -> tuple[str, ...]:
    match line.arguments:
        case None:
            arguments = "[erased]"
        case _ if line.arguments is UNKNOWN:
            arguments = "-"
        case _:
            arguments = text.inline(line.arguments, 100)
    return (
        text.time_of_day(line.at, view.utc) if one_day else view.when(line.at),
        text.printable(shown),
        text.printable(line.tool),
        arguments,
        line.outcome,
        "-" if line.took is None else text.duration_text(line.took),
        text.printable(line.by) or "-",
    )


_TOOLS = columns(
    "tool",
    "offered",
    "picked",
    "failed",
    "outcomes",
    "p50",
    "p95",
    right=("offered", "picked", "failed", "p50", "p95"),
    cut="outcomes",
)
_MODELS = columns("model", "replies", "failed", "errors", right=("replies", "failed"), cut="errors")


@cli_command(
    "stats", "handrail proof stats", "handrail proof stats --run run_0193", "handrail proof stats --all --json"
)
@click.option("--run", shell_complete=runs, metavar="RUN", help="Only of this run.")
@click.option("--all", "everything", is_flag=True, help="Of the whole journal.")
@with_common_options
@with_output_file
def stats(view: CommandView, run: str | None, everything: bool) -> None:
    """Show for each tool how often it was offered, called and failed, and how long it took; then the same for models.

    The last 10,000 entries are counted, unless you ask for one run or for all.
    """
    with view.reader() as reader:
        if run is not None:
            run = resolve_id(run, (each.run for each in reader.runs()), "run")
        telemetry = Telemetry.of(reader.events(run) if run is not None or everything else reader.recent())
    if view.wrote_json(*(*telemetry.tools(), *telemetry.models())):
        return
    if telemetry.tools():
        table(_TOOLS, [_of_tool(tool) for tool in telemetry.tools()])
    else:
        tell("No tool was offered or called.")
    if telemetry.models():
        answer()
        table(_MODELS, [_of_model(model) for model in telemetry.models()])


def _of_model(model: ModelTelemetry) -> tuple[str, ...]:
    return (
        text.printable(model.model) or "-",
        text.dashed(model.replies),
        text.dashed(sum(model.failed.values())),
        ", ".join(f"{text.printable(code)} {number:,}" for code, number in model.failed.items()) or "-",
    )


def _of_tool(tool: ToolTelemetry) -> tuple[str, ...]:
    outcomes = [f"{outcome} {number:,}" for outcome, number in tool.failed.items()]
    outcomes += [f"{tool.reused:,} reused"] if tool.reused else []
    return (
        text.printable(tool.tool),
        text.dashed(tool.offered),
        text.dashed(tool.picked),
        text.dashed(sum(tool.failed.values())),
        ", ".join(outcomes) or "-",
        *(text.duration_text(value) if value else "-" for value in (tool.p50_us, tool.p95_us)),
    )
