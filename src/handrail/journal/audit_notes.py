"""Whether what is noted of a journal's entries, for searches and proofs, is what the entries say."""

from __future__ import annotations

import struct

from handrail.core.events import ConfirmationAnswered, ConfirmationRequested
from handrail.journal.batches import BATCH, name_hash
from handrail.journal.entry import LeafPosition, decode_event
from handrail.journal.escape import column, unescape
from handrail.journal.merkle import Frontier
from handrail.journal.reader import JournalReader, JournalRow

_ROW = struct.Struct(f"<{BATCH}I")


class NoteChecks:
    """What should be noted of the entries that an audit has passed."""

    def __init__(self) -> None:
        self._runs: list[int] = []
        self._calls: list[int] = []
        self._began: list[int] = []
        self._batches: list[tuple[int, bytes, bytes, bytes]] = []
        self._waiting: dict[tuple[str, str], int] = {}
        self._questions: set[int] = set()
        """Those that waited at the end of the last batch."""

    def take(self, entry: JournalRow, said: LeafPosition) -> None:
        """Take the next entry.

        Raises:
            JournalError: It cannot be read.
        """
        if said.n == 0:
            self._began.append(len(self._runs))
        self._runs.append(name_hash(_column(said.run)))
        self._calls.append(name_hash(_column(said.call_id)))
        if said.type.startswith("confirmation."):
            event = decode_event(entry.leaf, None)
            if isinstance(event, ConfirmationRequested):
                self._waiting[event.run, event.request] = entry.seq
            elif isinstance(event, ConfirmationAnswered):
                self._waiting.pop((event.run, event.request), None)
        if len(self._runs) == BATCH:
            began = struct.pack(f"<{len(self._began)}H", *self._began)
            start = BATCH * len(self._batches)
            self._batches.append((start, _ROW.pack(*self._runs), _ROW.pack(*self._calls), began))
            self._runs, self._calls, self._began = [], [], []

    def problem(self, reader: JournalReader, tree: Frontier) -> str | None:
        """The first thing that is noted otherwise. What is not noted yet is no problem: it is searched for."""
        batches, waiting, nodes = reader.stored_notes()
        noted = list(batches)
        for found, wanted in zip(noted, self._batches, strict=False):
            if found != wanted:
                return f"the note on whose entries {wanted[0]} to {wanted[0] + BATCH - 1} are was changed"
        if len(noted) > len(self._batches):
            return "it notes whose entries are that it does not have"
        questions = {seq for (seq,) in waiting}
        still = {seq for seq in self._waiting.values() if seq < BATCH * len(noted)}
        if len(noted) == len(self._batches) and not still <= questions:
            return "the list of questions that wait was changed"
        if any(tree.whole.get((level, start), hashed) != hashed for level, start, hashed in nodes):
            return "the stored tree was changed: a node is not what its entries give"
        return None


def _column(said: object) -> str | None:
    name = unescape(said)
    return column(name) if isinstance(name, str) and name else None
