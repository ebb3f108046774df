"""`handrail proof backup`: a copy of the journal that is whole, even while it is written."""

from __future__ import annotations

from pathlib import Path

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import CommandView, answer, answer_json, tell, with_common_options
from handrail.journal.database import back_up


@click.command(
    "backup",
    epilog=examples(
        "handrail proof backup journal-2026-11-16.db", "handrail proof verify --journal journal-2026-11-16.db"
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@with_common_options
def command(view: CommandView, file: Path) -> None:
    """Copy the journal as it stands into a new file.

    A plain copy of a journal that is in use lacks what stands in the log beside it. This copy needs no other file, and
    can be verified on read-only media. The key is not copied; keep it apart.
    """
    path = view.path
    count = back_up(path, file)
    if view.as_json:
        answer_json({"journal": str(path), "backup": str(file), "entries": count})
        return
    answer(f"{text.count_text(count, 'entry')} of {text.printable(str(path))} are in {text.printable(str(file))}")
    tell("The key is not in it; to write to the copy in place of the journal, put the key beside it.")
