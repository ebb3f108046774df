"""`handrail proof stats`: how the tools did, from the record."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.complete import runs
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import CommandView, answer, columns, table, tell, with_common_options
from handrail.journal.telemetry import ModelTelemetry, Telemetry, ToolTelemetry

_COLUMNS = columns(
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
def command(view: CommandView, run: str | None, everything: bool) -> None:
    """Show per tool how often it was offered, picked and failed, and how long it took; then the same of models.

    Counted are the last 10,000 entries, unless you ask for a run or for all.
    """
    with view.reader() as reader:
        if run is not None:
            run = resolve_id(run, (each.run for each in reader.runs()), "run")
        telemetry = Telemetry.of(reader.events(run) if run is not None or everything else reader.recent())
    if view.wrote_json(*(*telemetry.tools(), *telemetry.models())):
        return
    if telemetry.tools():
        table(_COLUMNS, [_row(tool) for tool in telemetry.tools()])
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


def _row(tool: ToolTelemetry) -> tuple[str, ...]:
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
