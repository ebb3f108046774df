"""`handrail state compact`: the space of what was erased, given back to the disk."""

from __future__ import annotations

from pathlib import Path

import click

from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import CommandView, with_common_options
from handrail.cli.text import builtins, printable
from handrail.state.url import StateUrl


@cli_command("compact", "handrail state compact", "handrail state compact --services /srv/handrail --json")
@click.option(
    "--services",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Where [services] folder keeps its data, if not beside the journal.",
)
@with_common_options
def compact(view: CommandView, services: Path | None) -> None:
    """Free the disk space of what was erased, in the files of this node or in its database.

    Each file or table is rewritten, which needs as much free disk space as the largest one takes. Programs that use it
    wait until then, so run this when there is little load.
    """
    from handrail.app.compaction import compact_database, compact_files  # few commands need it

    journal = view.path
    with view.reader() as reader:
        reader.size()  # it is a journal, and one that this version reads
    if isinstance(journal, StateUrl):
        kind, found = "tables", compact_database(journal)
    else:
        kind, found = "files", compact_files(journal, services or journal.parent)
    freed = sum(each.before - each.after for each in found.values())
    lines = [f"{printable(name)}: {each.before:,} → {each.after:,} bytes" for name, each in found.items()]
    view.reply(
        {kind: builtins(found), "freed": freed},
        "\n".join([*lines, f"{freed:,} bytes are free again"]),
    )
