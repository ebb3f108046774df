"""`handrail proof new`: begin again where a journal was lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from handrail.cli import text
from handrail.cli.journal_location import DEFAULT, configured_journal
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import CommandView, answer, answer_json, with_common_options
from handrail.journal.database import key_file
from handrail.journal.journal import SqliteJournal
from handrail.journal.journal_files import set_lost_journal_aside


@click.command("new", epilog=examples("handrail proof new", "handrail proof new --journal audit/journal.db"))
@with_common_options
def command(view: CommandView) -> None:
    """Begin a new journal where the old one was lost.

    Nothing is deleted: the old key, and whatever else is left, is moved aside, and the new journal has a new key. Runs
    of the lost journal cannot be taken up any more, and what they did may be done again if somebody asks for it again.
    """
    path = view.named or configured_journal(view.config, Path.cwd()) or Path.cwd() / DEFAULT
    moved = set_lost_journal_aside(path, key_file(path))
    key = asyncio.run(_begin(path))
    if view.as_json:
        answer_json({"journal": str(path), "verifier_key": key, "set_aside": [str(each) for each in moved]})
        return
    for each in moved:
        answer(f"Set aside: {text.printable(str(each))}")
    answer(f"A new journal begins at {text.printable(str(path))}, signed by {text.printable(key)}")


async def _begin(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    async with await SqliteJournal.open(path) as journal:
        return journal.verifier_key
