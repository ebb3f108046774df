"""`handrail state retain`: what `[retention]` keeps no longer, removed now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from handrail.cli import text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import answer, tell
from handrail.cli.run_options import CliSetup, configured
from handrail.core.errors import UsageError
from handrail.journal.places import JournalPlace

if TYPE_CHECKING:
    from handrail.app.retention import RetentionReport

_KEPT = {
    "at_work": "open in a program",
    "conversation": "of a conversation that is kept",
    "in_doubt": "with an effect in doubt (handrail confirm settle)",
    "under_way": "with a call that has no end on record",
    "waits": "waiting for a person (handrail confirm list)",
}


@cli_command("retain", "handrail state retain --dry-run", "handrail state retain --json")
@click.option("--dry-run", is_flag=True, help="Only report what would be removed.")
@configured
def retain(setup: CliSetup, dry_run: bool) -> None:
    """Remove what is older or larger than [retention] in handrail.toml allows.

    `handrail serve` and `worker` do this by themselves, every six hours. In the record, only arguments, results and
    words are removed; the entries stay, so every proof stays valid. A run that waits for a person, has an effect in
    doubt or a call without an end stays at any age, with everything that it names. Then run `handrail state compact`
    to free the disk space.
    """
    if not setup.config.retention.stated:
        raise UsageError(
            "nothing under [retention] says what is kept no longer; write for example bodies_days = 365 into"
            " handrail.toml"
        )
    report = asyncio.run(_retain(setup, dry_run))
    if setup.view.wrote_json({"dry_run": dry_run, **text.builtins(report)}):
        return
    answer(f"{'would be removed' if dry_run else 'removed'}: {_counted(report)}")
    for why, runs in report.kept.items():
        tell(f"{text.count_text(runs, 'older run')} kept, {_KEPT.get(why, why)}")


async def _retain(setup: CliSetup, dry_run: bool) -> RetentionReport:
    from handrail.app import node_state, retention  # they need the stores of a node

    with node_state.opened_state(setup.config, setup.journal) as state:
        journal: JournalPlace = setup.journal if state.database is None else state.database.url
        return await retention.retain(
            journal, state, setup.config.retention, services=setup.config.services.folder, dry_run=dry_run
        )


def _counted(report: RetentionReport) -> str:
    return (
        f"{text.count_text(report.conversations, 'conversation')},"
        f" {text.count_text(report.outputs, 'long output')} ({report.output_bytes:,} bytes),"
        f" {text.count_text(report.blobs, 'blob')} ({report.blob_bytes:,} bytes),"
        f" {text.count_text(report.events, 'event')},"
        f" {text.count_text(report.bodies, 'body').replace('bodys', 'bodies')} of {text.count_text(report.runs, 'run')}"
    )
