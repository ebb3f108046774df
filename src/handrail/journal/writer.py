"""Entries into the journal's file, by one thread at a time.

It keeps the order of entries, their chain and their tree; it knows no threads and
no event loop. Other processes may write to the same file. A row that is already
there when ours arrives tells of them: theirs are then checked and taken in, under
the write lock, and ours are written behind them.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from handrail.core.errors import BrokenProof, JournalError
from handrail.core.events import ConfirmationAnswered, Recorded
from handrail.journal.batches import BATCH, end_of_batches, note_batches
from handrail.journal.confirmations import NOTED, FirstAnswers
from handrail.journal.database import FATAL, JournalBusy, connect, explain_failure, read_meta
from handrail.journal.entry import NO_PREVIOUS, EntryDraft, decode_event, leaf_position, seal_entry
from handrail.journal.journal_files import JournalFileWatch
from handrail.journal.keys import Signer
from handrail.journal.merkle import Frontier, leaf_hash
from handrail.journal.note import Checkpoint, open_note, sign
from handrail.journal.stored_tree import INSERT as INSERT_NODE
from handrail.state.sqlite_retry import primary_code

logger = logging.getLogger(__name__)

_INSERT = "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_EXACT = "INSERT INTO exact VALUES (?, ?)"
_INSERT_EFFECT = "INSERT INTO effect VALUES (?, ?)"
_LAST_EFFECT = "SELECT max(seq) FROM effect WHERE identity = ?"
_EFFECTS_OF = """
SELECT seq, leaf, data FROM effect JOIN entry USING (seq) WHERE identity = ? ORDER BY seq DESC LIMIT ?
"""
_NEXT_OF_CALL = "SELECT seq, leaf, data FROM entry WHERE seq > ? AND run = ? AND call = ? ORDER BY seq LIMIT 1"
_LAST_POSITION = "SELECT n FROM span WHERE run = ?"
_ERASURES = "SELECT value FROM meta WHERE key = 'erasures'"
_WHAT_IS_NEW = "SELECT (SELECT max(seq) FROM entry), (SELECT n FROM span WHERE run = ?)"
_NOTE_SPANS = """
INSERT INTO span SELECT run, min(seq), max(seq), max(n) FROM entry
WHERE seq >= (SELECT coalesce(max(size), 0) FROM checkpoint) GROUP BY run
ON CONFLICT (run) DO UPDATE SET last = excluded.last, n = excluded.n
"""

Row = tuple[int, str, int, str | None, str, int, bytes, bytes, bytes | None, bytes | None]
"""A row of the table: seq, run, n, call, type, at, leaf, hash, salt, data."""
Exact = tuple[int, bytes]
"""An encrypted body: seq, data."""
Effect = tuple[bytes, int]
"""A side effect and where it was noted: identity, seq."""


class JournalRows(NamedTuple):
    """What a commit adds to the tables."""

    entries: list[Row]
    exact: list[Exact]
    effects: list[Effect]


class JournalWriter:
    """Appends entries and signs checkpoints."""

    def __init__(self, path: Path, connection: sqlite3.Connection, signer: Signer) -> None:
        self.path = path
        self.signer = signer
        self.failure: JournalError | None = None
        """Set once the file can no longer be trusted to hold what it was given. There is no way back."""
        self.pages: int = 0
        """Roughly how many pages of the write-ahead log wait to be moved into the file."""
        self.run_ended: bool = False
        """Whether a run has ended that no checkpoint covers yet."""
        self.refused: frozenset[str] = frozenset()
        """The runs, by their columns, of which the last commit wrote nothing: they were taken up elsewhere."""
        self.size: int = 0
        self.unsigned: int = 0
        """How many entries no checkpoint covers yet."""
        self.behind: bool = False
        """Whether entries that a checkpoint covers are yet to be noted (`batches.py`)."""
        self._can_note = True
        self._connection = connection
        self._files = self._watch_files()
        self._origin = read_meta(connection)["origin"]
        self._durable = True
        self._frontier = Frontier()
        self._unfolded: list[bytes] = []
        self._head = NO_PREVIOUS
        self._positions: dict[str, int] = {}
        """The next number in its run, for runs that are written to here or have entries since the last checkpoint; that
        of any other run is in the table `span`."""
        self._leaving: set[str] = set()
        """Those of them that are kept only until the next checkpoint: ended, or of other processes."""
        self._questions = FirstAnswers()

    @classmethod
    def open(
        cls, path: Path, *, signer: Signer | None = None, origin: str | None = None, patience: float = 10
    ) -> JournalWriter:
        """Open or make a journal, and check its end against its last checkpoint.

        Raises:
            JournalError: It cannot be opened, is not a journal, or a later version wrote it.
            BrokenProof: Its end is not what was signed.
        """
        connection, signer = connect(path, signer, origin, patience)
        try:
            writer = cls(path, connection, signer)
            writer._take_up()
            # From here on whoever is in a hurry must not wait for other processes.
            connection.execute("PRAGMA busy_timeout = 0")
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise explain_failure(path, error) from error
            raise
        return writer

    def commit(self, drafts: Sequence[EntryDraft], durable: bool) -> None:
        """Write these entries, all or none. With `durable` they have reached the disk.

        An answer to a question that has one by now, from whatever process, is left out, and so is what begins a side
        effect that somebody has noted meanwhile.

        Raises:
            JournalBusy: Another process is writing; nothing was written.
            JournalError: They are not written.
        """
        self.check_failure()
        self._check_files(durable)
        try:
            if durable is not self._durable:
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            rows = self._rows(drafts)
            try:
                self._insert(rows)
            except sqlite3.IntegrityError:
                rows = self._insert_behind_others(drafts)
        except sqlite3.Error as error:
            raise self._explained(error) from error
        self._advance(rows.entries)

    def check(self) -> None:
        """Raises a `JournalError` if the journal failed before, or its files are gone."""
        self.check_failure()
        self._check_files(True)

    def is_new(self, run: str) -> bool:
        """Whether the journal has no entry of a run, which is named as its column has it.

        Raises:
            JournalError: The journal cannot be read, or the entries of another process are not in order.
        """
        self.check_failure()
        if self._positions.get(run):
            return False
        try:
            last, noted = self._connection.execute(_WHAT_IS_NEW, (run,)).fetchone()
            if last is not None and last >= self.size:
                self._fold()
        except sqlite3.Error as error:
            raise explain_failure(self.path, error) from error
        if noted is not None or self._positions.get(run):
            return False
        self._positions[run] = 0
        self._leaving.add(run)
        return True

    def probe(self) -> None:
        """Write something that says nothing, to know that entries could be written.

        Raises:
            JournalBusy: Another process is writing.
            JournalError: They could not.
        """
        self.check()
        try:
            # The value is another one each time: SQLite does not write what is there already.
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('probe', lower(hex(randomblob(8))))")
        except sqlite3.Error as error:
            raise self._explained(error) from error
        self.pages += 1

    def answer(self, run: str, request: str) -> ConfirmationAnswered | None:
        """The first answer to a question among the entries up to `size`; the run as its column has it.

        Raises:
            JournalError: The journal cannot be read.
        """
        self.check_failure()
        try:
            self._questions.learn(self._connection, run, request, self.size)
        except sqlite3.Error as error:
            raise explain_failure(self.path, error) from error
        return self._questions.answer(run, request)

    def find_answer(self, run: str, request: str) -> ConfirmationAnswered | None:
        """The same among all entries, those included that other processes wrote meanwhile.

        Raises:
            JournalError: The journal cannot be read, or the entries of another process are not in order.
        """
        self._take_in_others()
        return self.answer(run, request)

    def version_of(self, run: str) -> tuple[int, int]:
        """The number of entries of a run, given as its column has it, and how often bodies were erased.

        Raises:
            JournalError: The journal cannot be read, or the entries of another process are not in order.
        """
        self._take_in_others()
        try:
            erasures = self._connection.execute(_ERASURES).fetchone()
            return self._position(run), 0 if erasures is None else int(erasures[0])
        except sqlite3.Error as error:
            raise explain_failure(self.path, error) from error

    def _take_in_others(self) -> None:
        self.check_failure()
        try:
            last = self._connection.execute("SELECT max(seq) FROM entry").fetchone()[0]
            if last is not None and last >= self.size:
                self._fold()
        except sqlite3.Error as error:
            raise explain_failure(self.path, error) from error

    def known_answer(self, run: str, request: str) -> ConfirmationAnswered | None:
        """The same of a question that was looked up before; nothing is read."""
        return self._questions.answer(run, request)

    def checkpoint(self) -> str | None:
        """Sign the journal as it stands and return the note; None if it is signed already.

        Raises:
            JournalBusy: Another process is writing.
            JournalError: It could not be kept, or the entries of another process are not in order.
        """
        self.check_failure()
        self._check_files(True)
        try:
            with self._transaction():
                self._fold()
                note = self._sign()
                self._note()
        except sqlite3.Error as error:
            raise self._explained(error) from error
        self.unsigned, self.run_ended = 0, False
        self._frontier.whole.clear()
        for run in self._leaving:
            self._positions.pop(run, None)
        self._leaving.clear()
        return note

    def move_pages(self) -> None:
        """Move the write-ahead log into the file, as far as nobody reads the old pages."""
        self.check_failure()
        self.pages = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def close(self) -> None:
        if self.failure is None:
            self._connection.close()
            return
        # SQLite moves the log into the file when the last connection closes. After a failure that would spread pages
        # that may not be what was written, and sync them as if they were; the log has checksums, and whoever opens
        # the journal next reads it by them. While somebody else has the file open it is left as it is.
        with ExitStack() as stack:
            try:
                witness = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
                stack.callback(witness.close)
                witness.execute("SELECT 1 FROM meta").fetchone()
            except sqlite3.Error:
                logger.debug("the journal %s cannot even be read any more", self.path)
            self._connection.close()

    def check_failure(self) -> None:
        """Raises a `JournalError` if the journal failed before."""
        if self.failure is not None:
            raise JournalError(f"the journal failed before and takes no more entries: {self.failure}")

    def _watch_files(self) -> JournalFileWatch | None:
        return JournalFileWatch(self.path)

    def _check_files(self, durable: bool) -> None:
        if self._files is None:
            return
        try:
            self._files.check(log=durable)
        except (JournalError, OSError) as error:
            self.failure = explain_failure(self.path, error) if isinstance(error, OSError) else error
            raise self.failure from error

    def _explained(self, error: sqlite3.Error) -> JournalError | JournalBusy:
        code = primary_code(error)
        if code == sqlite3.SQLITE_BUSY:
            return JournalBusy()
        found = explain_failure(self.path, error)
        if code in FATAL:
            self.failure = found
        return found

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _insert(self, rows: JournalRows) -> None:
        if len(rows.entries) == 1 and not rows.exact and not rows.effects:
            self._connection.execute(_INSERT, rows.entries[0])  # a transaction by itself, without two more statements
            return
        with self._transaction():
            self._insert_all(rows)

    def _insert_behind_others(self, drafts: Sequence[EntryDraft]) -> JournalRows:
        with self._transaction():
            self._fold()
            rows = self._rows(drafts)
            self._insert_all(rows)
        return rows

    def _insert_all(self, rows: JournalRows) -> None:
        self._connection.executemany(_INSERT, rows.entries)
        if rows.exact:
            self._connection.executemany(_INSERT_EXACT, rows.exact)
        if rows.effects:
            self._connection.executemany(_INSERT_EFFECT, rows.effects)

    def last_effect(self, identity: bytes) -> tuple[int, bytes] | None:
        """The place where a side effect was last noted, and the leaf of that entry.

        Raises:
            JournalError: The journal cannot be read.
        """
        self.check_failure()
        try:
            found = self._connection.execute(_LAST_EFFECT, (identity,)).fetchone()[0]
            if found is None:
                return None
            leaf = self._connection.execute("SELECT leaf FROM entry WHERE seq = ?", (found,)).fetchone()
        except sqlite3.Error as error:
            raise explain_failure(self.path, error) from error
        return None if leaf is None else (found, leaf[0])

    def effects(self, identity: bytes, most: int) -> list[tuple[int, Recorded]]:
        """The entries in which a side effect was noted, the last one first.

        Raises:
            JournalError: The journal cannot be read.
        """
        return self._events(_EFFECTS_OF, (identity, most))

    def events_of_call(self, after: int, run: str, call: str) -> Iterator[Recorded]:
        """What came of a call after an entry; the run and the call as their columns have them.

        Raises:
            JournalError: The journal cannot be read.
        """
        while found := self._events(_NEXT_OF_CALL, (after, run, call)):
            after, event = found[0]
            yield event

    def _events(self, query: str, arguments: tuple[object, ...]) -> list[tuple[int, Recorded]]:
        self.check_failure()
        try:
            rows = self._connection.execute(query, arguments).fetchall()
        except sqlite3.Error as error:
            raise explain_failure(self.path, error) from error
        return [(seq, decode_event(leaf, data)) for seq, leaf, data in rows]

    def _rows(self, drafts: Sequence[EntryDraft]) -> JournalRows:
        seq, prev = self.size, self._head
        positions: dict[str, int] = {}
        rows: list[Row] = []
        exact: list[Exact] = []
        effects: dict[bytes, int] = {}
        answered: set[tuple[str, str]] = set()
        for each in drafts:
            if each.request:
                answers = (each.run, each.request)
                if answers in answered or self.answer(*answers) is not None:
                    continue
                answered.add(answers)
            if (note := each.effect) is not None:
                last = effects.get(note.identity)
                if last is None:
                    last = self._connection.execute(_LAST_EFFECT, (note.identity,)).fetchone()[0]
                note.written = last == note.after
                if not note.written:
                    continue
                effects[note.identity] = seq
            n = positions[each.run] if each.run in positions else self._position(each.run)
            leaf = seal_entry(each, seq, n, prev)
            hashed = leaf_hash(leaf)
            rows.append((seq, each.run, n, each.call, each.type, each.at, leaf, hashed, each.salt, each.data))
            if each.exact is not None:
                exact.append((seq, each.exact))
            seq, prev, positions[each.run] = seq + 1, hashed.hex(), n + 1
        return JournalRows(rows, exact, list(effects.items()))

    def _position(self, run: str) -> int:
        if run in self._positions:
            return self._positions[run]
        found = self._connection.execute(_LAST_POSITION, (run,)).fetchone()
        return 0 if found is None else int(found[0]) + 1

    def _advance(self, rows: list[Row]) -> None:
        for _, run, n, _, kind, _, leaf, hashed, _, data in rows:
            self._unfolded.append(hashed)
            self._positions[run] = n + 1
            if kind == "run.finished":
                self._leaving.add(run)
                self.run_ended = True
            elif run in self._leaving:
                self._leaving.remove(run)
            if kind in NOTED:
                self._questions.take(kind, run, leaf)
            if data is not None and len(data) > 4096:
                self.pages += len(data) // 4096
            self._head = hashed.hex()
        self.size += len(rows)
        self.unsigned += len(rows)
        self.pages += 1 + len(rows) // 4

    def _fold(self) -> None:
        """Take in the entries that others wrote since."""
        rows = self._connection.execute(
            "SELECT seq, run, n, leaf, hash FROM entry WHERE seq >= ? ORDER BY seq", (self.size,)
        )
        for seq, run, n, leaf, hashed in rows:
            said = leaf_position(leaf)
            if (said.seq, said.n, said.prev) != (seq, n, self._head) or seq != self.size or leaf_hash(leaf) != hashed:
                self.failure = BrokenProof(self.size, "it is not what was written; run: handrail proof verify")
                raise self.failure
            self._unfolded.append(hashed)
            self._head = hashed.hex()
            self.size += 1
            self.unsigned += 1
            if run not in self._positions:
                self._leaving.add(run)
            self._positions[run] = n + 1
            if said.type in NOTED:
                self._questions.take(said.type, run, leaf)

    def _sign(self) -> str | None:
        for hashed in self._unfolded:
            self._frontier.append(hashed)
        self._unfolded.clear()
        size = self._frontier.size
        if size == 0 or self._connection.execute("SELECT 1 FROM checkpoint WHERE size = ?", (size,)).fetchone():
            return None
        note = sign(Checkpoint(self._origin, size, self._frontier.root()), self.signer)
        self._connection.execute(_NOTE_SPANS)
        self._connection.execute("INSERT INTO checkpoint VALUES (?, ?, ?)", (size, note, self._frontier.save()))
        self._keep_nodes()
        return note

    def _keep_nodes(self) -> None:
        self._connection.executemany(INSERT_NODE, ((*place, node) for place, node in self._frontier.whole.items()))

    def _note(self) -> None:
        if not self._can_note:
            return
        try:
            self.behind = note_batches(self._connection, self.size, self.signer.sealing)
        except JournalError as error:
            if self._is_passing(error):
                raise
            self._can_note = self.behind = False
            logger.warning("the journal %s: some searches will take long: %s", self.path, error)

    def _is_passing(self, error: JournalError) -> bool:
        """Whether the same will work later."""
        return False

    def _is_behind(self) -> bool:
        return self.size - end_of_batches(self._connection) >= BATCH

    def _take_up(self) -> None:
        """Go on from the last checkpoint, and check that the journal does."""
        last = self._connection.execute(
            "SELECT size, note, frontier FROM checkpoint ORDER BY size DESC LIMIT 1"
        ).fetchone()
        if last is not None:
            size, note, frontier = last
            signed = open_note(note, [self.signer.verifier])
            self._frontier = _loaded(size, frontier)
            if (signed.size, signed.root) != (size, self._frontier.root()):
                raise BrokenProof(None, f"the checkpoint at {size} entries was changed; run: handrail proof verify")
            head = self._connection.execute("SELECT leaf FROM entry WHERE seq = ?", (size - 1,)).fetchone()
            if head is None:
                raise BrokenProof(size - 1, "it is signed, and missing; run: handrail proof verify")
            self._head = leaf_hash(head[0]).hex()
            self.size = size
        self._fold()
        self.behind = self._is_behind()


def _loaded(size: int, data: bytes) -> Frontier:
    try:
        return Frontier.load(size, data)
    except ValueError as error:
        raise BrokenProof(None, f"the checkpoint at {size} entries is damaged: {error}") from error
