"""The journal of a program that keeps no file: the same entries, tree and proofs, made when they are asked for.

To append is to keep the event. What a journal on disk does for each entry (mask secrets, draw
a salt, hash, chain, sign) is done once, for all entries so far, when a proof is asked for; the
key is drawn then too. The body of an entry may hold values that the program changes later, so
it is encoded at once, and what was encoded is what is proven.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from handrail.core.errors import JournalError
from handrail.core.events import Recorded
from handrail.core.in_memory_leases import InMemoryLease, InMemoryLeases
from handrail.journal import escape
from handrail.journal.entry import SALT_SIZE, EntryDraft, draft, encoded_body

if TYPE_CHECKING:
    from handrail.journal.keys import Signer
    from handrail.journal.reader import JournalReader

ORIGIN = "handrail/memory"
_NOWHERE = Path(":memory:")

_KeptEvent = tuple[Recorded, bytes | None]
"""An event, and its body as it was when the event was appended."""


class InMemoryJournal:
    """Keeps the events of one process as long as it is referenced. There is nothing to close."""

    def __init__(self, *, random: Callable[[int], bytes] = os.urandom) -> None:
        self._events: list[_KeptEvent] = []
        self._drafts: list[EntryDraft] = []
        """Of the first events: those that a proof was asked for. Their salts are drawn once."""
        self._signer: Signer | None = None
        self._proving = threading.Lock()
        self._leases = InMemoryLeases()
        self._closed = False
        self._random = random

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        self.append_soon(event)

    def append_at_once(self, event: Recorded, *, durable: bool = False) -> bool:
        return self.append_soon(event)

    def append_soon(self, event: Recorded) -> bool:
        """Keep an event. It never has to wait."""
        if self._closed:
            raise JournalError("the journal is closed; make another to append")
        self._events.append(_kept_event(event))
        return True

    async def history(self, run: str) -> list[Recorded]:
        return [_as_it_was(kept) for kept in self._events if kept[0].run == run]

    async def lease(self, run: str) -> InMemoryLease:
        return self._leases.take(run)

    async def aclose(self) -> None:
        """Take no more entries. Those that are there can be proven as before."""
        self._closed = True

    # ── proofs ───────────────────────────────────────────────────────────────────────

    def reader(self) -> JournalReader:
        """The record as it stands now, as a journal on disk would have it: sealed, chained and signed."""
        from handrail.journal.database import connect_in_memory  # SQLite and cryptography load when they are used
        from handrail.journal.reader import JournalReader
        from handrail.journal.writer import JournalWriter

        signer, drafts = self._drafted()
        connection = connect_in_memory(ORIGIN, signer)
        try:
            writer = JournalWriter(_NOWHERE, connection, signer)
            writer.commit(drafts, durable=False)
            writer.checkpoint()
        except BaseException:
            connection.close()
            raise
        return JournalReader.of(connection, _NOWHERE, signer)

    def _drafted(self) -> tuple[Signer, list[EntryDraft]]:
        from handrail.journal.keys import Signer

        with self._proving:
            if self._signer is None:
                self._signer = Signer.from_seed(ORIGIN, self._random(32))
            sealing = self._signer.sealing
            for kept in self._events[len(self._drafts) :]:
                self._drafts.append(draft(_as_it_was(kept), self._random(SALT_SIZE), sealing))
            return self._signer, self._drafts[:]


def _kept_event(event: Recorded) -> _KeptEvent:
    name = event.body
    if name is None:
        return event, None
    value = getattr(event, name)
    data = encoded_body(value)
    if data is not None and b"null" not in data:
        return event, data
    # JSON has no spelling for a part of it, or the same one for several values, as for None and NaN: a copy keeps it.
    try:
        return replace(event, **{name: escape.plain(value)}), None
    except RecursionError:
        return event, None


def _as_it_was(kept: _KeptEvent) -> Recorded:
    event, data = kept
    if event.body is None or data is None or encoded_body(getattr(event, event.body)) == data:
        return event
    return replace(event, **{event.body: msgspec.json.decode(data)})
