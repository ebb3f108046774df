"""`handrail confirm list`: the calls that wait for a person's word."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import (
    CommandView,
    TableColumn,
    answer_json,
    is_terminal,
    table,
    tell,
    with_common_options,
)
from handrail.core.events import ConfirmationRequested

_COLUMNS = (
    TableColumn("request"),
    TableColumn("asked"),
    TableColumn("tool"),
    TableColumn("arguments", cut=True),
    TableColumn("run"),
)


@click.command("list", epilog=examples("handrail confirm list", "handrail confirm list --json | jq -r .request"))
@with_common_options
def command(view: CommandView) -> None:
    """List the calls that wait for a person's word, oldest first."""
    with view.reader() as reader:
        waiting = reader.pending()
        runs = view.ids([run.run for run in reader.runs()])
    if view.as_json:
        for question in waiting:
            answer_json(question)
        return
    if not waiting:
        tell("Nothing waits for an answer.")
        return
    requests = view.ids([question.request for question in waiting])
    table(_COLUMNS, [_row(view, each, requests[each.request], runs[each.run]) for each in waiting])
    if is_terminal():
        tell("Answer with: handrail confirm allow REQUEST, or handrail confirm deny REQUEST")


def _row(view: CommandView, question: ConfirmationRequested, request: str, run: str) -> tuple[str, ...]:
    arguments = "[erased]" if question.arguments is None else text.inline(question.arguments, 100)
    return (
        text.printable(request),
        view.when(question.at),
        text.printable(question.tool),
        arguments,
        text.printable(run),
    )
