"""`handrail proof list`: the runs of a journal."""

from __future__ import annotations

from collections import Counter

import click

from handrail.cli.ids import above
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import CommandView, TableColumn, answer_json, table, tell, with_common_options
from handrail.cli.text import builtins, count_text, dashed, printable
from handrail.journal.summaries import RunSummary

_COLUMNS = (
    TableColumn("run"),
    TableColumn("started"),
    TableColumn("calls", right=True),
    TableColumn("failed", right=True),
    TableColumn("in doubt", right=True),
    TableColumn("waiting", right=True),
    TableColumn("state"),
)


@click.command(
    "list",
    epilog=examples(
        "handrail proof list",
        "handrail proof list --last 5 --utc",
        "handrail proof list --json | jq 'select(.in_doubt > 0)'",
    ),
)
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the N runs that began last.")
@click.option("--all", "whole", is_flag=True, help="Also the runs that other runs began, as those of handrail rlm do.")
@with_common_options
def command(view: CommandView, last: int | None, whole: bool) -> None:
    """List the runs: when they began, what came of their calls, what waits.

    A run is `open` until its program says that it ended: it may be at work now, or have been cut off.
    """
    with view.reader() as reader:
        every = reader.runs()
        waiting = Counter(question.run for question in reader.pending())
    top = set(above(run.run for run in every))
    # What somebody has to look at is never left out.
    runs = [run for run in every if whole or run.run in top or run.in_doubt or waiting[run.run]]
    chosen = runs if last is None else runs[-last:]
    if view.as_json:
        for run in chosen:
            answer_json({**builtins(run), "waiting": waiting[run.run], "state": run_state(run, waiting[run.run])})
        return
    if not chosen:
        tell("The journal has no runs yet.")
        return
    shown = view.ids(run.run for run in runs)
    table(_COLUMNS, [_row(view, run, shown[run.run], waiting[run.run]) for run in chosen])
    if len(runs) < len(every):
        tell(f"{count_text(len(every) - len(runs), 'run')} that these began are left out; --all lists them.")


def run_state(run: RunSummary, waiting: int) -> str:
    if run.finished is not None:
        return printable(run.finished)
    if waiting:
        return "waiting"
    return f"open, {run.open} unanswered" if run.open else "open"


def _row(view: CommandView, run: RunSummary, shown: str, waiting: int) -> tuple[str, ...]:
    numbers = (run.calls, run.errors, run.in_doubt, waiting)
    return printable(shown), view.when(run.started), *map(dashed, numbers), run_state(run, waiting)
