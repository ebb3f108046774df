"""Where the entries of a run are, and which questions wait: noted for 448 entries together, after they are signed.

To note it with every append would cost a tenth of each. So it is done by the journal's thread, at a checkpoint, for
whole batches; what came after the last batch is short and is looked through. For each entry of a batch a row has four
bytes of its run's name and four of its call's, in order, so a search reads a thousandth of what the journal has.

Whoever exports a run says how many entries it has. So the rows of runs are authenticated with the key of the journal: a
row that was changed, or left out, is noticed. They tell nothing that the entries do not.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from handrail.core.errors import BrokenProof, JournalError
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested
from handrail.journal.body_encryption import BodyEncryption
from handrail.journal.entry import decode_event
from handrail.journal.stored_tree import INSERT as INSERT_NODE, StoredTree, has_table

BATCH = 448
"""Entries that are noted together: what is noted of them then fits a page of the file."""
MOST = 8
"""Batches that one checkpoint notes at most, for a journal that is behind."""

TABLES = (
    """
CREATE TABLE IF NOT EXISTS batch (
    start INTEGER PRIMARY KEY, runs BLOB NOT NULL, calls BLOB NOT NULL, began BLOB NOT NULL, mark BLOB NOT NULL
)
""",
    "CREATE TABLE IF NOT EXISTS waiting (seq INTEGER PRIMARY KEY, run TEXT NOT NULL, request TEXT NOT NULL)",
)
_ROWS = "SELECT run, n, call, type FROM entry WHERE seq >= ? AND seq < ? ORDER BY seq"
_WAITS = """
INSERT INTO waiting VALUES (?, ?, ?) ON CONFLICT (seq) DO UPDATE SET run = excluded.run, request = excluded.request
"""
_RUNS = struct.Struct(f"<{BATCH}I")
_QUESTIONS = frozenset(("confirmation.requested", "confirmation.answered"))


def name_hash(name: str | None) -> int:
    """Four bytes of a name, never zero; zero of no name. Names that share them cost a look, and nothing else."""
    return 0 if name is None else zlib.crc32(name.encode("utf-8", "surrogatepass")) or 1


def end_of_batches(connection: sqlite3.Connection) -> int:
    """The entry after the last one that is noted."""
    if not has_table(connection, "batch"):
        return 0
    last = connection.execute("SELECT max(start) FROM batch").fetchone()[0]
    return 0 if last is None else int(last) + BATCH


def note_batches(connection: sqlite3.Connection, size: int, sealing: BodyEncryption) -> bool:
    """Note the batches that are whole, some at a time; whether there are more. In the transaction of a checkpoint.

    Raises:
        JournalError: An entry cannot be read. What was noted before stays.
    """
    start = end_of_batches(connection)
    for _ in range(MOST):
        if size - start < BATCH:
            return False
        connection.execute("SAVEPOINT batch")
        try:
            _note(connection, start, sealing)
        except BaseException:
            connection.execute("ROLLBACK TO batch")
            raise
        finally:
            connection.execute("RELEASE batch")
        start += BATCH
    return size - start >= BATCH


def _note(connection: sqlite3.Connection, start: int, sealing: BodyEncryption) -> None:
    rows = connection.execute(_ROWS, (start, start + BATCH)).fetchall()
    if len(rows) != BATCH or not all(isinstance(run, str) for run, *_ in rows):
        raise JournalError(f"entries {start} to {start + BATCH - 1} are not whole; run: handrail proof verify")
    known: dict[str | None, int] = {run: name_hash(run) for run in {row[0] for row in rows}}
    runs = _RUNS.pack(*[known[run] for run, *_ in rows])
    calls = _RUNS.pack(*[name_hash(call) for _, _, call, _ in rows])
    began = [at for at, (_, n, _, _) in enumerate(rows) if n == 0]
    values = (start, runs, calls, struct.pack(f"<{len(began)}H", *began), _mark(sealing, start, runs))
    connection.execute("INSERT INTO batch VALUES (?, ?, ?, ?, ?)", values)
    for at, (*_, kind) in enumerate(rows):
        if kind in _QUESTIONS:
            _note_question(connection, start + at)
    connection.executemany(INSERT_NODE, StoredTree(connection).missing(start, start + BATCH))


def _note_question(connection: sqlite3.Connection, seq: int) -> None:
    run, leaf = connection.execute("SELECT run, leaf FROM entry WHERE seq = ?", (seq,)).fetchone()
    event = decode_event(leaf, None)
    if isinstance(event, ConfirmationRequested):
        connection.execute(_WAITS, (seq, run, event.request))
    elif isinstance(event, ConfirmationAnswered):
        connection.execute("DELETE FROM waiting WHERE run = ? AND request = ?", (run, event.request))


def _mark(sealing: BodyEncryption, start: int, runs: bytes) -> bytes:
    return sealing.mark(b"%d " % start + runs)


class RowReader(Protocol):
    def __call__(self, statement: str, **values: Any) -> Iterable[tuple[Any, ...]]: ...


class Batches:
    """Finds entries by what is noted of them. What is found is a guess, to be held to the entry itself."""

    def __init__(self, end: int, rows: RowReader) -> None:
        self.end = end
        """The entry after the last one that is noted."""
        self._rows = rows

    def of_run(self, run: str, first: int, last: int) -> Iterator[int]:
        """The entries between two that may be those of a run, in order."""
        return self._find("runs", run, first, last)

    def of_call(self, call: str) -> Iterator[int]:
        """The entries that may be those of a call, in order."""
        return self._find("calls", call, 0, self.end)

    def began_before(self, seq: int) -> Iterator[int]:
        """The first entries of runs, before an entry, the last one first."""
        if not self.end:
            return
        query = "SELECT start, began FROM batch WHERE start < :seq ORDER BY start DESC"
        for start, data in self._rows(query, seq=min(seq, self.end)):
            if not isinstance(data, bytes) or len(data) % 2:
                raise _changed(start)
            for (at,) in reversed(list(struct.iter_unpack("<H", data))):
                if start + at < seq:
                    yield start + at

    def check(self, sealing: BodyEncryption, first: int = 0) -> None:
        """Return if nobody has changed what is noted of runs from a batch on, or left any of it out.

        Raises:
            BrokenProof: Somebody has.
        """
        wanted = first
        query = "SELECT start, runs, mark FROM batch WHERE start >= :first AND start < :end ORDER BY start"
        for start, runs, mark in self._rows(query, first=first, end=self.end) if self.end else ():
            if start != wanted or not isinstance(runs, bytes) or _mark(sealing, start, runs) != mark:
                raise _changed(wanted)
            wanted += BATCH

    def _find(self, column: str, name: str, first: int, last: int) -> Iterator[int]:
        if not self.end:
            return
        hashed = name_hash(name)
        query = (
            f"SELECT start, {column} FROM batch WHERE start > :first AND start <= :last AND start < :end"
            f" AND instr({column}, :wanted) > 0 ORDER BY start"
        )
        values = {"first": first - BATCH, "last": last, "end": self.end, "wanted": struct.pack("<I", hashed)}
        for start, data in self._rows(query, **values):
            if not isinstance(data, bytes) or len(data) != _RUNS.size:
                raise _changed(start)
            for at, word in enumerate(_RUNS.unpack(data)):
                if word == hashed and first <= start + at <= last:
                    yield start + at


def _changed(start: int) -> BrokenProof:
    return BrokenProof(
        start,
        f"the note on whose entries {start} to {start + BATCH - 1} are was changed; run: handrail proof verify",
    )
