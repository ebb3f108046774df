"""`handrail state compact`: the space of what was erased, given back to the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click

from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import CommandView, with_common_options
from handrail.cli.text import printable
from handrail.core.errors import UsageError
from handrail.journal.places import file_of

_MAGIC = b"SQLite format 3\0"
_PATIENCE = 10.0


@cli_command("compact", "handrail state compact", "handrail state compact --services /srv/handrail --json")
@click.option(
    "--services",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Where [services] folder keeps its data, if not beside the journal.",
)
@with_common_options
def compact(view: CommandView, services: Path | None) -> None:
    """Give back the space of what was erased or ended, in the files of this node.

    Each file is written anew inside itself, so there must be as much room on the disk as the largest takes. A program
    that has it open waits meanwhile: do it when little goes on.
    """
    journal = file_of(view.path, "handrail state compact")
    with view.reader() as reader:
        reader.size()  # it is a journal, and one that this version reads
    found = {}
    for path in (journal, *_databases(journal, {journal.parent, services or journal.parent})):
        before = _size(path)
        _compact(path)
        found[str(path)] = {"before": before, "after": _size(path)}
    freed = sum(each["before"] - each["after"] for each in found.values())
    lines = [f"{printable(path)}: {each['before']:,} → {each['after']:,} bytes" for path, each in found.items()]
    view.reply({"files": found, "freed": freed}, "\n".join([*lines, f"{freed:,} bytes are free again"]))


def _databases(journal: Path, folders: set[Path]) -> Iterator[Path]:
    """The other files of the state that are databases."""
    known = {journal.resolve()}
    for folder in sorted(folders):
        for path in sorted([*folder.glob("*.db"), *folder.glob("blobs/*.sqlite")]):
            if path.resolve() not in known and path.is_file() and not path.is_symlink() and _is_database(path):
                known.add(path.resolve())
                yield path


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _size(path: Path) -> int:
    """With the log beside it."""
    log = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


def _compact(path: Path) -> None:
    try:
        with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        raise UsageError(
            f"{str(path)!r} could not be compacted ({error}); it is as it was: end what writes to it, make room on"
            " the disk, and try again"
        ) from error
