"""`handrail state backup`, `verify` and `restore`."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import click
import msgspec

from handrail.app.node_state import opened_state
from handrail.app.state_backups import BackupManifest, restore_backup, verify_backup, write_backup
from handrail.app.state_copies import StateCounts
from handrail.cli import text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import CommandView, answer, tell, with_common_options
from handrail.cli.run_options import CliSetup, configured
from handrail.state.database import StateDatabase
from handrail.state.url import StateUrl

KINDS = {"tokens": "token", "conversations": "conversation", "events": "event", "blobs": "blob", "entries": "entry"}


@cli_command("backup", "handrail state backup node.tar", 'handrail state backup "node-$(date +%F).tar" --json')
@click.argument("file", type=click.Path(path_type=Path))
@configured
def backup(setup: CliSetup, file: Path) -> None:
    """Write the state of this node to FILE, which must not exist. The node can keep running.

    The backup contains keys: whoever has the file can sign as this node. Only you can read it; keep it as you keep
    passwords. It does not contain approvals that were given on this machine, nor a key that [node] identity names
    elsewhere. Verify the backup, and try a restore, before you rely on it.
    """
    with opened_state(setup.config, setup.journal) as state:
        made = write_backup(state, setup.journal, file, services=setup.config.services.folder)
    if setup.view.wrote_json(_manifest_as_json(made, file)):
        return
    answer(f"{counted(made.counts)} are in {text.printable(str(file))}")
    tell(f"It contains the keys: keep it as you keep passwords. Verify it with: handrail state verify {file}")


@cli_command("verify", "handrail state verify node.tar", "handrail state verify node.tar --json | jq .problems")
@click.argument("file", type=click.Path(path_type=Path))
@with_common_options
def verify(view: CommandView, file: Path) -> None:
    """Verify the backup in FILE: its files by their digests, and every table, conversation, blob and proof.

    It needs no access to the node, so run it where you keep backups. The exit code is 0 if the backup is complete and
    unchanged, otherwise 1.
    """
    made, problems = verify_backup(file)
    if not view.wrote_json({**_manifest_as_json(made, file), "problems": list(problems)}):
        answer(f"{counted(made.counts)}, of {view.when(made.at)}, by handrail {made.handrail}")
        answer(f"node {made.node_id or 'without a key'}")
        for problem in problems:
            answer(text.printable(problem), "bad")
        answer("damaged" if problems else "whole", "bad" if problems else "good")
    if problems:
        raise SystemExit(1)


@cli_command(
    "restore",
    "handrail state restore node.tar --to .handrail",
    "handrail state restore node.tar --to postgresql://handrail@db/handrail",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--to", "target", required=True, metavar="PLACE", help="A folder, or the URL of a PostgreSQL database.")
@with_common_options
def restore(view: CommandView, file: Path, target: str) -> None:
    """Restore the backup FILE into an empty place: the folder of a journal, or a database.

    Nothing is overwritten: a place that already has a state is refused. Stop the node that was backed up, since both
    would sign as the same node. The record lacks effects that came after the backup: check what was done since, before
    you repeat anything.
    """
    with opened_place(target) as place:
        made = restore_backup(file, place)
    view.reply(
        {**_manifest_as_json(made, file), "restored_to": shown_place(target)}, f"{counted(made.counts)} are restored"
    )


def opened_place(named: str) -> Any:
    """A folder or a database, as a context.

    Raises:
        StateError: The database cannot be used.
    """
    if "://" in named:
        return closing(StateDatabase.open(named))
    return nullcontext(Path(named))


def shown_place(named: str) -> str:
    """The place of a state for people: a URL without its password."""
    return str(StateUrl(named)) if "://" in named else named


def counted(counts: StateCounts) -> str:
    """How much there is, in words."""
    found = {word: getattr(counts, name) for name, word in KINDS.items()}
    return ", ".join(text.count_text(number, word) for word, number in found.items())


def _manifest_as_json(made: BackupManifest, file: Path) -> dict[str, Any]:
    said: dict[str, Any] = msgspec.to_builtins(made)
    return {"backup": str(file), **{key: said[key] for key in ("handrail", "at", "node_id", "counts")}}
