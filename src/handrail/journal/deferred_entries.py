"""Entries that journals of this process have deferred; they are written before somebody reads the file."""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet

from handrail.journal.places import JournalPlace
from handrail.state.url import StateUrl


class DeferringJournal(Protocol):
    """A journal that writes some entries a little later."""

    def write_put_off(self) -> None:
        """Write them now, if that is possible soon."""
        ...


_open: dict[str, WeakSet[DeferringJournal]] = {}
_changing = threading.RLock()
"""The garbage collector may close a journal anywhere, also in a thread that has this lock."""
os.register_at_fork(after_in_child=_open.clear)  # the parent writes what it has put off


def register(path: JournalPlace, journal: DeferringJournal) -> None:
    """Makes every reader of this file in this process read what the journal has put off too."""
    real = _key(path)
    with _changing:
        journals = _open.get(real, WeakSet())
        journals.add(journal)
        _open[real] = journals


def _key(path: JournalPlace) -> str:
    return path.dsn if isinstance(path, StateUrl) else os.path.realpath(path)


def unregister(path: JournalPlace, journal: DeferringJournal) -> None:
    real = _key(path)
    with _changing:
        if (journals := _open.get(real)) is not None:
            journals.discard(journal)
            if not journals:
                del _open[real]


def write_put_off(path: JournalPlace) -> None:
    """Have the journals of this process write what they put off for this file."""
    if not _open:
        return
    with _changing:
        journals = list(_open.get(_key(path), ()))
    for journal in journals:
        journal.write_put_off()
