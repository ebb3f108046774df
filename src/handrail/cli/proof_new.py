"""`handrail proof new`: begin again where a journal was lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from handrail.cli import text
from handrail.cli.groups import examples
from handrail.cli.place import DEFAULT, configured_journal
from handrail.cli.view import View, answer, answer_json, common
from handrail.proof.database import key_file
from handrail.proof.journal import SqliteJournal
from handrail.proof.presence import set_aside


@click.command("new", epilog=examples("handrail proof new", "handrail proof new --journal audit/journal.db"))
@common
def command(view: View) -> None:
    """Begin a new journal where the old one was lost.

    Nothing is deleted: the old key, and whatever else is left, is moved aside, and the new journal has a new key. Runs
    of the lost journal cannot be taken up any more, and what they did may be done again if somebody asks for it again.
    """
    path = view.named or configured_journal(view.config, Path.cwd()) or Path.cwd() / DEFAULT
    moved = set_aside(path, key_file(path))
    key = asyncio.run(_begin(path))
    if view.as_json:
        answer_json({"journal": str(path), "verifier_key": key, "set_aside": [str(each) for each in moved]})
        return
    for each in moved:
        answer(f"Set aside: {text.visible(str(each))}")
    answer(f"A new journal begins at {text.visible(str(path))}, signed by {text.visible(key)}")


async def _begin(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    async with await SqliteJournal.open(path) as journal:
        return journal.verifier_key
