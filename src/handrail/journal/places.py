"""Where a journal is: a file, or the shared state of several replicas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from handrail.core.errors import UsageError
from handrail.state.url import StateUrl

if TYPE_CHECKING:
    from handrail.journal.journal import BatchedJournal

JournalPlace: TypeAlias = Path | StateUrl


def parse_place(text: str) -> JournalPlace:
    """The place that a text names: an address of PostgreSQL, or else a path.

    Raises:
        UsageError: It is an address, and not as PostgreSQL has them.
    """
    return StateUrl(text) if "://" in text else Path(text)


def file_of(place: JournalPlace, what: str) -> Path:
    """The file of a journal, for what only a journal in a file can do.

    Raises:
        UsageError: It is in a shared state.
    """
    if isinstance(place, StateUrl):
        raise UsageError(f"{what} needs a journal in a file, and this one is in {place}")
    return place


async def open_journal(place: JournalPlace) -> BatchedJournal:
    """The journal of a place, which is made if there is none.

    Raises:
        JournalError: It cannot be opened, with what to do about it.
    """
    if isinstance(place, StateUrl):
        from handrail.journal.postgres_journal import PostgresJournal

        return await PostgresJournal.open(place)
    from handrail.journal.journal import SqliteJournal

    return await SqliteJournal.open(place)
