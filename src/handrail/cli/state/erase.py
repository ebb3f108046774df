"""`handrail state erase`: a run or a person, everywhere in the state of this node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handrail.cli.complete import runs
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import CommandView, ask, tell, with_common_options
from handrail.cli.text import builtins, count_text, printable
from handrail.core.errors import UsageError

if TYPE_CHECKING:
    from handrail.app.erasure import Erasable, ErasureReport


@cli_command(
    "erase",
    "handrail state erase --run run_0193",
    "handrail state erase --person token:0f3a --yes --json",
)
@click.option("--run", metavar="RUN", shell_complete=runs, help="A run, and the runs that it began.")
@click.option("--person", metavar="NAME", help="Everything of somebody, by the name that their token gives them.")
@click.option(
    "--services",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Where [services] folder keeps blobs and events, if not beside the journal.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_common_options
def erase(view: CommandView, run: str | None, person: str | None, services: Path | None, yes: bool) -> None:
    """Erase a run or a person: in the journal, conversations, long outputs, blobs and events.

    The journal keeps the entries without their bodies, so every proof stays valid: what was called, when, how it ended,
    and digests of the erased data, which reveal nothing. Backups, exported bundles and data that was sent to
    OpenTelemetry are not changed. Then run `handrail state compact` to free the disk space.
    """
    if (run is None) == (person is None):
        raise UsageError("say what to erase: --run RUN or --person NAME")
    report = asyncio.run(_erase(view, run, person or "", services, yes))
    view.reply(
        builtins(report),
        f"erased {count_text(report.bodies, 'body').replace('bodys', 'bodies')} of"
        f" {count_text(len(report.runs), 'run')},"
        f" {count_text(len(report.conversations), 'conversation')}, {count_text(report.outputs, 'long output')},"
        f" {count_text(report.blobs, 'blob')} and {count_text(report.events, 'event')};"
        f" {report.entries_kept} entries stay in the journal with digests alone",
    )


async def _erase(view: CommandView, run: str | None, person: str, services: Path | None, yes: bool) -> ErasureReport:
    from handrail.app import erasure, node_state  # they need the stores of a node

    journal = view.path
    with node_state.state_at(journal) as state:
        if run is not None:
            with view.reader() as reader:
                named = reader.runs_named(run)
                run = run if run in named or not named else resolve_id(run, named, "run")
            what = await erasure.find_run(journal, state, run)
        else:
            what = await erasure.find_person(journal, state, person)
        if not yes:
            _confirm(what)
        return await erasure.erase(journal, state, what, services)


def _confirm(what: Erasable) -> None:
    tell(
        f"{count_text(len(what.runs), 'run')}, {count_text(len(what.conversations), 'conversation')} and"
        f" {count_text(len(what.outputs), 'long output')} would be deleted for good; proofs stay valid."
    )
    for each in what.runs[:20]:
        tell(f"  {printable(each)}")
    if not ask("Erase them?"):
        tell("Nothing was erased.")
        raise click.exceptions.Exit(1)
