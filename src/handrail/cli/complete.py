"""Ids for the shell to complete. It never says why it has none: nobody could read it there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import click

from handrail.cli.ids import above
from handrail.cli.journal_location import configured_journal, find_journal
from handrail.core.errors import HandrailError
from handrail.journal.reader import JournalReader


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _beginning(ctx, incomplete, lambda reader: above(each.run for each in reader.runs()))


def calls(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _beginning(ctx, incomplete, lambda reader: (each.call for each in reader.entries() if each.call is not None))


def requests(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _beginning(ctx, incomplete, lambda reader: (each.request for each in reader.pending()))


def _beginning(ctx: click.Context, incomplete: str, ids: Callable[[JournalReader], Iterable[str]]) -> list[str]:
    above, here = ctx.find_root().params, Path.cwd()
    try:
        named = ctx.params.get("journal") or above.get("journal") or configured_journal(above.get("config"), here)
        with JournalReader(find_journal(named, here)) as reader:
            found = dict.fromkeys(ids(reader))
    except HandrailError:
        return []
    # An id with other letters could not be completed in every shell, and could steer the terminal.
    return [each for each in found if each.startswith(incomplete) and each.isascii() and each.isprintable()]
