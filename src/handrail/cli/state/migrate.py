"""`handrail state migrate`: a node's state from files to PostgreSQL, and back."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import msgspec

from handrail.app.state_backups import move_files
from handrail.app.state_copies import StateCounts, database_to_files, files_to_database
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import CommandView, tell, with_common_options
from handrail.cli.state.backups import counted, opened_place, shown_place
from handrail.core.errors import UsageError
from handrail.state.database import StateDatabase


@cli_command(
    "migrate",
    "handrail state migrate .handrail postgresql://handrail@db/handrail",
    "handrail state migrate postgresql://handrail@db/handrail /srv/one-machine/.handrail",
)
@click.argument("source")
@click.argument("target")
@with_common_options
def migrate(view: CommandView, source: str, target: str) -> None:
    """Copy the state in SOURCE into TARGET, which must be empty: the folder of a journal, or a PostgreSQL URL.

    Stop the node first: what it stores after the copy has begun stays in SOURCE. Nothing in SOURCE changes, except the
    format of files that an earlier version wrote. Then set [state] url, or HANDRAIL_STATE, to the new place, or remove
    it to return to files. The node has the same key, tokens, conversations and record, and every proof stays valid.
    Documents of `rag` are indexed again.
    """
    if source == target:
        raise UsageError("SOURCE and TARGET are the same place")
    with opened_place(source) as one, opened_place(target) as other:
        counts = copy_state(one, other)
    said = {"source": shown_place(source), "target": shown_place(target), "counts": msgspec.to_builtins(counts)}
    view.reply(said, f"{counted(counts)} are in {shown_place(target)}")
    if isinstance(other, StateDatabase):
        tell("Now set it as url under [state] in handrail.toml, or as HANDRAIL_STATE, and start the replicas.")


def copy_state(source: Path | StateDatabase, target: Path | StateDatabase) -> StateCounts:
    """Copy a state from one engine to the other.

    Raises:
        UsageError: Both are of the same kind, the source has nothing, or the target has a state.
        StateError: A database cannot be used.
    """
    if isinstance(source, Path) and isinstance(target, StateDatabase):
        if not source.is_dir():
            raise UsageError(f"there is no folder {str(source)!r}; name the one that the journal is in")
        return files_to_database(source, target)
    if isinstance(source, StateDatabase) and isinstance(target, Path):
        with tempfile.TemporaryDirectory(prefix="handrail-migrate-") as temporary:
            counts = database_to_files(source, Path(temporary) / "state")
            move_files(Path(temporary) / "state", target)
        return counts
    raise UsageError("name a folder and a PostgreSQL URL, first the source, then the target; to copy files, use backup")
