"""Words for the shell to complete. It never says why it has none: nobody could read it there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handrail.cli.ids import above
from handrail.cli.journal_location import configured_journal, find_journal
from handrail.core.errors import HandrailError

if TYPE_CHECKING:
    from handrail.journal.reader import JournalReader

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def completer(words: Callable[[click.Context], Iterable[str]]) -> Completer:
    """Completes with those of the words that begin as what was typed."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        try:
            found = dict.fromkeys(words(ctx))
        except HandrailError:
            return []
        # A word with other letters could not be completed in every shell, and could steer the terminal.
        return [each for each in found if each.startswith(incomplete) and each.isascii() and each.isprintable()]

    return complete


def named_config(ctx: click.Context) -> Path | None:
    """The configuration that the line names so far."""
    return ctx.params.get("config") or ctx.find_root().params.get("config")


def _from_journal(ids: Callable[[JournalReader], Iterable[str]]) -> Completer:
    def read(ctx: click.Context) -> list[str]:
        from handrail.journal.reader import JournalReader

        above, here = ctx.find_root().params, Path.cwd()
        named = ctx.params.get("journal") or above.get("journal") or configured_journal(above.get("config"), here)
        with JournalReader(find_journal(named, here)) as reader:
            return list(ids(reader))

    return completer(read)


runs = _from_journal(lambda reader: above(each.run for each in reader.runs()))
calls = _from_journal(lambda reader: (each.call for each in reader.entries() if each.call is not None))
requests = _from_journal(lambda reader: (each.request for each in reader.pending()))
