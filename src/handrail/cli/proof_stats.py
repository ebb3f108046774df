"""`handrail proof stats`: how the tools did, from the record."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.complete import runs
from handrail.cli.groups import examples
from handrail.cli.ids import resolve
from handrail.cli.view import Column, View, answer, answer_json, common, table, tell
from handrail.proof.telemetry import ModelTelemetry, Telemetry, ToolTelemetry

_COLUMNS = (
    Column("tool"),
    Column("offered", right=True),
    Column("picked", right=True),
    Column("failed", right=True),
    Column("outcomes", cut=True),
    Column("p50", right=True),
    Column("p95", right=True),
)
_MODELS = (
    Column("model"),
    Column("replies", right=True),
    Column("failed", right=True),
    Column("errors", cut=True),
)


@click.command(
    "stats",
    epilog=examples("handrail proof stats", "handrail proof stats --run run_0193", "handrail proof stats --all --json"),
)
@click.option("--run", shell_complete=runs, metavar="RUN", help="Only of this run.")
@click.option("--all", "everything", is_flag=True, help="Of the whole journal.")
@common
def command(view: View, run: str | None, everything: bool) -> None:
    """Show per tool how often it was offered, picked and failed, and how long it took; then the same of models.

    Counted are the last 10,000 entries, unless you ask for a run or for all.
    """
    with view.reader() as reader:
        if run is not None:
            run = resolve(run, (each.run for each in reader.runs()), "run")
        telemetry = Telemetry.of(reader.events(run) if run is not None or everything else reader.recent())
    if view.as_json:
        for line in (*telemetry.tools(), *telemetry.models()):
            answer_json(line)
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
        text.visible(model.model) or "-",
        text.dashed(model.replies),
        text.dashed(sum(model.failed.values())),
        ", ".join(f"{text.visible(code)} {number:,}" for code, number in model.failed.items()) or "-",
    )


def _row(tool: ToolTelemetry) -> tuple[str, ...]:
    outcomes = [f"{outcome} {number:,}" for outcome, number in tool.failed.items()]
    outcomes += [f"{tool.reused:,} reused"] if tool.reused else []
    return (
        text.visible(tool.tool),
        text.dashed(tool.offered),
        text.dashed(tool.picked),
        text.dashed(sum(tool.failed.values())),
        ", ".join(outcomes) or "-",
        *(text.duration(value) if value else "-" for value in (tool.p50_us, tool.p95_us)),
    )
