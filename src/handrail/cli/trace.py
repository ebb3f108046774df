"""`handrail trace`: a run as a waterfall, or what the models did day by day."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import click

from handrail.cli import complete
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import CommandView, answer, columns, table, tell, with_common_options
from handrail.cli.text import builtins, count_text, printable, to_json
from handrail.core.display import duration_text
from handrail.core.durable_files import write_atomically
from handrail.core.errors import UsageError
from handrail.journal.trace import RunTrace, TraceSpan, TraceTotals, recorded_trace, recorded_usage

_BAR = 24
_NUMBERS = ("start", "took", "turns", "retries", "tokens in", "cached", "out", "cost")
_SPANS = columns("start", "took", "what", "state", "tokens in", "cached", "out", "cost", "span", right=_NUMBERS)
_DAYS = columns("day", "model", "turns", "retries", "tokens in", "cached", "out", "cost", right=_NUMBERS)


@cli_command(
    "trace",
    "handrail trace run_0193",
    "handrail trace run_0193 --json | jq .totals",
    "handrail trace run_0193 -o trace.json",
    "handrail trace                         tokens and cost of each day and model",
)
@click.argument("run", required=False, shell_complete=complete.runs)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the trace to this file, as one JSON document.",
)
@with_common_options
def command(view: CommandView, run: str | None, output: Path | None) -> None:
    """Show where a run spent its time and tokens.

    The trace has the turns of the model, calls, nested calls, waits for approval and failed attempts, each with its
    start and length, and the tokens, cached tokens and cost of each turn. Runs that the RUN began are nested in it.
    Without a RUN, you get totals for each day and model.
    """
    with view.reader() as reader:
        if run is None:
            days = recorded_usage(reader, zone=UTC if view.utc else None)
            value = [builtins(each) for each in days]
        else:
            trace = recorded_trace(reader, resolve_id(run, (each.run for each in reader.runs()), "run"))
            value = builtins(trace)
    if output is not None:
        _write(output, to_json(value))
        return view.reply({"file": str(output)}, f"the trace is written to {printable(str(output))}")
    if run is not None:
        return None if view.wrote_json(value) else _print_trace(view, trace)
    if view.wrote_json(*value):
        return None
    if not days:
        return tell("No model has replied in this journal yet.")
    table(_DAYS, [(each.day, printable(each.model), *_of_day(each.totals)) for each in days])


def _write(file: Path, written: str) -> None:
    try:
        write_atomically(file, f"{written}\n".encode())
    except OSError as error:
        raise UsageError(f"{str(file)!r} cannot be written: {error.strerror or error}") from error


def _print_trace(view: CommandView, trace: RunTrace) -> None:
    state = trace.state or "not finished, or interrupted"
    answer(f"{printable(trace.run)}  {view.when(trace.started)}  {_took(trace.ms)}  {printable(state)}", "title")
    table(_SPANS, [_row(each, trace.ms) for each in trace.spans])
    totals = trace.totals
    said = [count_text(totals.turns, "turn"), count_text(totals.calls, "call")]
    said += [f"{totals.failed} failed"] if totals.failed else []
    said += [f"{totals.retries} failed attempts"] if totals.retries else []
    said += [f"waited {_took(totals.waited_ms)}"] if totals.waited_ms else []
    tokens = f"{totals.input_tokens:,} tokens in ({totals.cached_tokens:,} cached), {totals.output_tokens:,} out"
    answer(f"{', '.join(said)}; {tokens}{'' if totals.cost is None else f', {_cost(totals.cost)}'}")


def _row(span: TraceSpan, whole: int) -> tuple[str, ...]:
    mark = {"wait": "waits: ", "retry": "failed attempt: ", "run": "run "}.get(span.kind, "")
    taken, given = (f"{each:,}" for each in span.tokens) if span.tokens is not None else ("-", "-")
    cached = f"{span.cached:,}" if span.tokens is not None else "-"
    state = printable(span.state) or "not over"
    what = "  " * span.depth + printable(mark + span.name)
    start = _took(span.start) if span.start else "0 ms"
    return start, _took(span.ms), what, state, taken, cached, given, _cost(span.cost), _bar(span, whole)


def _bar(span: TraceSpan, whole: int) -> str:
    """The bar of a span in the whole run."""
    whole = max(whole, 1)
    first = min(_BAR - 1, int(span.start * _BAR / whole))
    last = min(_BAR, max(first + 1, round((span.start + span.ms) * _BAR / whole)))
    return " " * first + ("░" if span.kind == "wait" else "█") * (last - first)


def _of_day(totals: TraceTotals) -> tuple[str, ...]:
    tokens = (totals.input_tokens, totals.cached_tokens, totals.output_tokens)
    return str(totals.turns), str(totals.retries), *(f"{each:,}" for each in tokens), _cost(totals.cost)


def _took(ms: float) -> str:
    return duration_text(round(ms * 1000))


def _cost(dollars: float | None) -> str:
    return "-" if dollars is None else f"${dollars:.4f}"
