"""The journal as people and commands look at it: runs, calls, what waits for an answer. And `erase`.

Nothing here verifies: that is `audit`.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from handrail.core.errors import BrokenProof, JournalError, LeaseLost, UsageError
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested, Recorded
from handrail.journal import deferred_entries
from handrail.journal.batches import Batches, end_of_batches
from handrail.journal.body_encryption import BodyEncryption
from handrail.journal.database import connect_existing, explain_failure, has_exact, own_signer, read_meta
from handrail.journal.entry import LeafPosition, decode_event, leaf_position
from handrail.journal.escape import column, uncolumn, unescape
from handrail.journal.keys import Signer
from handrail.journal.places import JournalPlace, file_of
from handrail.journal.stored_tree import StoredTree, has_table
from handrail.journal.summaries import CallRecord, RunSummary, RunTally, call_records
from handrail.journal.telemetry import RING
from handrail.state.url import StateUrl

if TYPE_CHECKING:
    from handrail.journal.postgres_tables import PostgresTables

_ENTRIES = "SELECT seq, run, n, call, type, at, leaf, hash, salt, data FROM entry"
_HEADS = "SELECT seq, run, n, call, type, at, leaf, hash, NULL, NULL FROM entry"
_SPAN = """
SELECT (SELECT first FROM span WHERE run = :run), (SELECT last FROM span WHERE run = :run),
    (SELECT coalesce(max(size), 0) FROM checkpoint)
"""
_FIRST_ROWS, _MORE_ROWS = 50, 200
"""How many rows a server is asked for at a time: few first, for those who want only the newest."""
_QUESTIONS = "('confirmation.requested', 'confirmation.answered')"


class JournalRow(Struct, frozen=True):
    """A row of the journal."""

    seq: int
    run: str
    n: int
    call: str | None
    type: str
    at: int
    leaf: bytes
    hash: bytes
    salt: bytes | None
    data: bytes | None

    @property
    def event(self) -> Recorded:
        return decode_event(self.leaf, self.data)

    def says_run(self, run: str) -> bool:
        """Whether it is of a run by its leaf, whatever its column says.

        Raises:
            BrokenProof: The leaf cannot be read.
        """
        return bool(unescape(self._position().run) == run)

    def says_call(self, call_id: str) -> bool:
        """Whether it is of a call by its leaf.

        Raises:
            BrokenProof: The leaf cannot be read.
        """
        return bool(unescape(self._position().call_id) == call_id)

    def _position(self) -> LeafPosition:
        try:
            return leaf_position(self.leaf)
        except (JournalError, TypeError) as error:
            raise BrokenProof(self.seq, f"it cannot be read: {error}") from error


class JournalReader:
    """Reads a journal, even while others write it. Close it, or use it in a `with` block.

    With `still` it goes on seeing what it saw first, whatever is written meanwhile: for
    what is compared with one another.

    Raises:
        JournalError: There is no journal there, or it cannot be read.
    """

    def __init__(self, path: str | JournalPlace, *, still: bool = False) -> None:
        self.path: JournalPlace = path if isinstance(path, StateUrl) else Path(path)
        deferred_entries.write_put_off(self.path)
        self._connection = _connect(self.path)
        self._signer: Signer | None = None
        self._known_batches: Batches | None = None
        if still:
            try:
                self._connection.execute("BEGIN")
                if isinstance(self.path, StateUrl):
                    self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            except BaseException:
                self._connection.close()
                raise

    @classmethod
    def over(cls, tables: PostgresTables, url: StateUrl) -> JournalReader:
        """A reader of a shared state over a connection that is there. It is the reader's to close."""
        reader = cls.__new__(cls)
        reader.path, reader._connection, reader._signer = url, cast(sqlite3.Connection, tables), None
        reader._known_batches = None
        return reader

    @classmethod
    def of(cls, connection: sqlite3.Connection, path: Path, signer: Signer) -> JournalReader:
        """A reader of a journal that is open and no file. It is the reader's to close."""
        reader = cls.__new__(cls)
        reader.path, reader._connection, reader._signer = path, connection, signer
        reader._known_batches = None
        return reader

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def origin(self) -> str:
        return self._about("origin")

    @property
    def verifier_key(self) -> str:
        """The key that the journal says it is signed with."""
        return self._about("key")

    def signer(self) -> Signer:
        """The key of the journal.

        Raises:
            JournalError: It is not beside the journal, or cannot be used.
        """
        if self._signer is None and isinstance(self.path, StateUrl):
            from handrail.journal.postgres_tables import stored_signer  # psycopg is loaded where a state is read

            return stored_signer(cast("PostgresTables", self._connection).connection, self.origin)
        return self._signer or own_signer(file_of(self.path, "a key beside it"), self.origin)

    def size(self) -> int:
        return int(next(self._each("SELECT count(*) FROM entry"))[0])

    def entry(self, seq: int) -> JournalRow:
        for found in self._entries(f"{_ENTRIES} WHERE seq = :seq", seq=seq):
            return found
        raise JournalError(f"the journal {str(self.path)!r} has no entry {seq}")

    def entries(self, run: str | None = None) -> Iterator[JournalRow]:
        """The rows in order, of one run or of all."""
        if run is None:
            return self._entries(f"{_ENTRIES} ORDER BY seq")
        return self.entries_of(run)

    def entries_of(self, run: str, first: int = 0, *, heads: bool = False) -> Iterator[JournalRow]:
        """The rows of a run in order, from this place in the journal on; with `heads` without their bodies.

        Where they are is read from what is noted of the journal (`batches.py`), and only the end of it looked through.
        """
        select, name = _HEADS if heads else _ENTRIES, column(run)
        if not isinstance(self._connection, sqlite3.Connection):  # it has an index by run
            query = f"{select} WHERE seq >= :first AND run = :run ORDER BY seq"
            yield from self._entries(query, first=first, run=name)
            return
        batches = self._batches()
        ((begin, last, signed),) = self._each(_SPAN, run=name)
        if begin is not None:
            first = max(first, begin)
            noted = self._rows_at(select, batches.of_run(name, first, min(last, batches.end - 1)))
            yield from (each for each in noted if each.run == run)
            between = f"{select} WHERE seq >= :first AND seq <= :last AND run = :run ORDER BY seq"
            yield from self._entries(between, first=max(first, batches.end), last=last, run=name)
        rest = f"{select} WHERE seq >= :first AND run = :run ORDER BY seq"
        yield from self._entries(rest, first=max(first, signed), run=name)

    def whole_run(self, run: str, *, heads: bool = False, checked: int = 0) -> Iterator[JournalRow]:
        """The rows of a run, all of them, found by nothing that somebody without the key could have changed. Where this
        user has not the key, that means every entry of the journal is looked at.

        What is noted of the entries before `checked` was checked earlier.

        Raises:
            BrokenProof: What is noted of the runs was changed.
        """
        select, first = _HEADS if heads else _ENTRIES, 0
        if (sealing := self.sealing) is not None:
            name, batches = column(run), self._batches()
            batches.check(sealing, checked)
            noted = self._rows_at(select, batches.of_run(name, 0, batches.end - 1))
            yield from (each for each in noted if each.says_run(run))
            first = batches.end
        late = self._entries(f"{select} WHERE seq >= :first ORDER BY seq", first=first)
        yield from (each for each in late if each.says_run(run))

    def noted(self) -> int:
        """The entry after the last one of which it is noted whose it is."""
        return self._batches().end

    def stored_notes(self) -> tuple[Iterator[tuple[Any, ...]], Iterator[tuple[Any, ...]], Iterator[tuple[Any, ...]]]:
        """What is noted of the entries, as it is stored: batches, questions that wait, and nodes of the tree."""
        columns = {"batch": "start, runs, calls, began", "waiting": "seq", "subtree": "level, start, hash"}
        found = [
            self._each(f"SELECT {names} FROM {table} ORDER BY 1") if has_table(self._connection, table) else iter(())
            for table, names in columns.items()
        ]
        return found[0], found[1], found[2]

    def begin(self, run: str) -> int | None:
        """The first entry of a run; None if there is no such run."""
        return next((entry.seq for entry in self.entries_of(run, heads=True)), None)

    def newest_runs(self, before: str | None = None) -> Iterator[str]:
        """The runs by when they began, the newest first; with `before` those that are older than that one."""
        batches = self._batches()
        limit = self.end()
        if before is not None:
            limit = self.begin(before) or 0
        values = {"first": batches.end, "limit": limit}
        late = "SELECT run FROM entry WHERE n = 0 AND seq >= :first AND seq < :limit ORDER BY seq DESC"
        for (run,) in self._each(late, **values):
            yield uncolumn(run)
        yield from (head.run for head in self._rows_at(_HEADS, batches.began_before(limit)) if head.n == 0)

    def runs_named(self, beginning: str) -> list[str]:
        """The runs whose names begin so, in no order."""
        name = column(beginning)
        noted = "SELECT run FROM span WHERE substr(run, 1, :length) = :name"
        if after := _after(name):
            # PostgreSQL may order texts otherwise than by their bytes; by these signs it does not.
            least, less = (">=", "<") if isinstance(self._connection, sqlite3.Connection) else ("~>=~", "~<~")
            noted += f" AND run {least} :name AND run {less} :after"
        late = (
            "SELECT DISTINCT run FROM entry WHERE seq >= (SELECT coalesce(max(size), 0) FROM checkpoint)"
            " AND substr(run, 1, :length) = :name"
        )
        values: dict[str, str | int] = {"name": name, "length": len(name), "after": after}
        found = [row[0] for query in (noted, late) for row in self._each(query, **values)]
        return [uncolumn(run) for run in dict.fromkeys(found)]

    def _batches(self) -> Batches:
        if self._known_batches is not None:
            return self._known_batches
        try:
            found = Batches(end_of_batches(self._connection), self._each)
            if not isinstance(self._connection, sqlite3.Connection):
                self._known_batches = found  # later ones are looked through
            return found
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise explain_failure(self.path, error) from error

    def heads(self, first: int = 0) -> Iterator[JournalRow]:
        """The rows from this one on, without their bodies: as if all were erased."""
        return self._entries(f"{_HEADS} WHERE seq >= :first ORDER BY seq", first=first)

    def piece(self, first: int, end: int) -> Iterator[tuple[JournalRow, int]]:
        """The rows from one up to another, without their bodies, each with the size of its body; 0 if it has none."""
        sizes = "SELECT seq, coalesce(length(data), 0) FROM entry WHERE seq >= :first AND seq < :end ORDER BY seq"
        known = dict(self._each(sizes, first=first, end=end))
        rows = self._entries(f"{_HEADS} WHERE seq >= :first AND seq < :end ORDER BY seq", first=first, end=end)
        return ((row, known.get(row.seq, 0)) for row in rows)

    def events(self, run: str | None = None) -> Iterator[Recorded]:
        return (entry.event for entry in self.entries(run))

    def recent(self, n: int = RING) -> list[Recorded]:
        """The last events of all runs, oldest first: the ring that telemetry is made from."""
        return [entry.event for entry in self._entries(f"{_ENTRIES} ORDER BY seq DESC LIMIT :n", n=n)][::-1]

    def runs(self) -> list[RunSummary]:
        """Every run, oldest first."""
        tallies: dict[str, RunTally] = {}
        for run, kind, call, at, leaf in self._each("SELECT run, type, call, at, leaf FROM entry ORDER BY seq"):
            if run not in tallies:
                tallies[run] = RunTally(at)
            tallies[run].feed(kind, call, at, leaf)
        return [tally.summary(uncolumn(run)) for run, tally in tallies.items()]

    def calls(self, run: str) -> list[CallRecord]:
        """Every call of a run, in the order in which they began."""
        return call_records(self.events(run))

    def find_call(self, call_id: str, run: str | None = None) -> CallRecord | None:
        """What is known of a call; of several with this id, the last."""
        found = call_records(entry.event for entry in self.entries_of_call(call_id, run))
        return found[-1] if found else None

    def entries_of_call(self, call_id: str, run: str | None = None) -> Iterator[JournalRow]:
        """The rows of a call in order, of one run or of all that have a call of this id: those whose leaves say so."""
        batches = self._batches()
        noted = self._rows_at(_HEADS, batches.of_call(column(call_id)))
        for head in chain(noted, self.heads(batches.end)):
            if head.says_call(call_id) and (run is None or head.says_run(run)):
                yield self.entry(head.seq)

    def pending(self, run: str | None = None) -> list[ConfirmationRequested]:
        """The questions to a person that nobody has answered, with exact arguments if this user has the key."""
        events = map(self.exact_event, self.unanswered(run).values())
        return [event for event in events if isinstance(event, ConfirmationRequested)]

    def unanswered(self, run: str | None = None) -> dict[str, JournalRow]:
        """The entries of those questions, by request."""
        asked: dict[str, JournalRow] = {}
        for entry in self._waiting_or_late() if run is None else self.entries_of(run):
            if entry.type not in ("confirmation.requested", "confirmation.answered"):
                continue
            match entry.event:
                case ConfirmationRequested(request=request):
                    asked[request] = entry
                case ConfirmationAnswered(request=request):
                    asked.pop(request, None)
        return asked

    def _waiting_or_late(self) -> Iterator[JournalRow]:
        """The questions that nobody has answered in what is noted, and all questions and answers after that."""
        end = self._batches().end
        if end:
            yield from self._rows_at(_ENTRIES, (seq for (seq,) in self._each("SELECT seq FROM waiting ORDER BY seq")))
        yield from self.confirmations(end)

    def hides(self, entry: JournalRow) -> bool:
        """Whether a part of the body cannot be shown: a mask stands for it, and the key that opens it is not there."""
        return leaf_position(entry.leaf).exact is not None and entry.salt is not None and self.sealing is None

    def version(self) -> int:
        """A number that changes whenever somebody else has written to the journal."""
        if isinstance(self._connection, sqlite3.Connection):
            return int(next(self._each("PRAGMA data_version"))[0])
        return self.end()

    def confirmations(self, first: int) -> Iterator[JournalRow]:
        """The questions to a person, and their answers, from this entry on."""
        return self._entries(f"{_ENTRIES} WHERE seq >= :first AND type IN {_QUESTIONS} ORDER BY seq", first=first)

    def end(self) -> int:
        """The number that the next entry will have."""
        return int(next(self._each("SELECT coalesce(max(seq) + 1, 0) FROM entry"))[0])

    def exact(self, entry: JournalRow, sealing: BodyEncryption) -> bytes | None:
        """The body of an entry exactly as it was, if the entry hides a part of it and it was not erased.

        Raises:
            JournalError: It was changed, or another key encrypted it.
        """
        ref = leaf_position(entry.leaf).exact
        if ref is None or entry.salt is None:
            return None
        stored = has_exact(self._connection)
        for (data,) in self._each("SELECT data FROM exact WHERE seq = :seq", seq=entry.seq) if stored else ():
            found = sealing.open(entry.salt, data)
            if sealing.digest(entry.salt, found) != ref.digest:
                raise JournalError("its exact arguments were changed: the digest does not fit")
            return found
        raise JournalError("its exact arguments are missing")

    def exact_event(self, entry: JournalRow) -> Recorded:
        """The event of an entry with its exact arguments, if this user has the key of the journal; else as it is
        recorded, with a mask over what looks like a secret.

        Raises:
            JournalError: The exact arguments were changed.
        """
        if leaf_position(entry.leaf).exact is None or (sealing := self.sealing) is None:
            return entry.event
        data = self.exact(entry, sealing)
        return entry.event if data is None else decode_event(entry.leaf, data)

    @cached_property
    def sealing(self) -> BodyEncryption | None:
        """Opens exact arguments; None if the key of the journal is not there, or this user may not read it."""
        try:
            signer = self.signer()
        except (JournalError, UsageError):
            return None
        return signer.sealing if signer.verifier_key == self.verifier_key else None

    def body(self, seq: int) -> bytes | None:
        """The body of an entry as it is kept; None if it has none or it was erased."""
        return self.entry(seq).data

    def tree(self) -> StoredTree:
        """The tree as it is stored; nothing in it is proven."""
        return StoredTree(self._connection)

    def head(self, seq: int) -> JournalRow | None:
        """The row of an entry without its body, if there is one."""
        return next(self._entries(f"{_HEADS} WHERE seq = :seq", seq=seq), None)

    def last_checkpoint(self) -> tuple[int, str, bytes] | None:
        """Size, signed note and tree frontier of the last checkpoint."""
        return next(self._each("SELECT size, note, frontier FROM checkpoint ORDER BY size DESC LIMIT 1"), None)

    def hashes(self, size: int | None = None) -> list[bytes]:
        """The leaf hashes of the first entries, for proofs."""
        size = self.end() if size is None else size
        return [row[0] for row in self._each("SELECT hash FROM entry WHERE seq < :size ORDER BY seq", size=size)]

    def checkpoints(self) -> list[tuple[int, str, bytes]]:
        """Size, signed note and tree frontier of every checkpoint, smallest first."""
        rows = list(self._each("SELECT size, note, frontier FROM checkpoint ORDER BY size"))
        if not all(isinstance(size, int) for size, _, _ in rows):
            raise JournalError(f"the journal {str(self.path)!r}: the table of its checkpoints is damaged; keep a copy")
        return [(size, note, frontier) for size, note, frontier in rows]

    def signed(self) -> tuple[int, str] | None:
        """Size and note of the last checkpoint."""
        rows = self._each("SELECT size, note FROM checkpoint ORDER BY size DESC LIMIT 1")
        return next(((size, note) for size, note in rows), None)

    def spans(self) -> dict[str, tuple[int, int, int]]:
        """For each run what is noted of its entries up to the last checkpoint: the first, the last, and its number."""
        rows = self._each("SELECT run, first, last, n FROM span")
        return {uncolumn(run): (first, last, n) for run, first, last, n in rows}

    def _about(self, key: str) -> str:
        try:
            return read_meta(self._connection).get(key, "")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise explain_failure(self.path, error) from error

    def _entries(self, statement: str, **values: str | int | list[int]) -> Iterator[JournalRow]:
        for seq, run, n, call, *others in self._each(statement, **values):
            yield JournalRow(seq, uncolumn(run), n, None if call is None else uncolumn(call), *others)

    def _rows_at(self, select: str, seqs: Iterable[int]) -> Iterator[JournalRow]:
        """These rows, in this order, as far as they are there. A server is asked for some at a time."""
        if isinstance(self._connection, sqlite3.Connection):
            for seq in seqs:
                yield from self._entries(f"{select} WHERE seq = :seq", seq=seq)
            return
        left = iter(seqs)
        for size in chain((_FIRST_ROWS,), repeat(_MORE_ROWS)):
            if not (some := list(islice(left, size))):
                return
            found = {row.seq: row for row in self._entries(f"{select} WHERE seq = ANY(:seqs)", seqs=some)}
            yield from (found[seq] for seq in some if seq in found)

    def _each(self, statement: str, **values: str | int | list[int]) -> Iterator[tuple[Any, ...]]:
        try:
            # Not from the cursor itself, which would be closed: half-read ones may outlive a reader closed first.
            yield from map(tuple, self._connection.execute(statement, values))
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise explain_failure(self.path, error) from error


def _after(beginning: str) -> str:
    """The first text after all that begin so, in the order of their bytes; nothing where there is none."""
    last = beginning[-1:]
    return beginning[:-1] + chr(ord(last) + 1) if last and last < "\ud7ff" else ""


def _connect(path: JournalPlace, **settings: str) -> sqlite3.Connection:
    """With `settings` of the session, where it is one of a server."""
    if not isinstance(path, StateUrl):
        return connect_existing(path, "ro")
    from handrail.journal.postgres_tables import connect_to_read  # psycopg is loaded where a state is read

    return cast(sqlite3.Connection, connect_to_read(path, **settings))


def history(path: JournalPlace, run: str) -> list[Recorded]:
    """Every event of a run in order."""
    with JournalReader(path) as reader:
        return list(reader.events(run))


async def first_answer(path: JournalPlace, run: str, request: str, size: int, interval: float) -> ConfirmationAnswered:
    """The first answer to a question among the entries from number `size` on, once there is one.

    It asks SQLite now and then whether anybody has written, which reads one page of shared memory, and reads only
    entries that it has not seen.

    Raises:
        JournalError: The journal cannot be read.
    """
    with JournalReader(path) as reader:
        seen = None
        while True:
            version = reader.version()
            if version != seen:
                for entry in reader.confirmations(size):
                    event = entry.event
                    if isinstance(event, ConfirmationAnswered) and (event.run, event.request) == (run, request):
                        return event
                    size = entry.seq + 1
                seen = version
            await asyncio.sleep(interval)


def erase(
    path: str | JournalPlace, *, run: str | None = None, call_id: str | None = None, before: int | None = None
) -> int:
    """Erase bodies: of a run, of a call, from before a time (ms since 1970), or of what matches all conditions.

    The entries stay, and so do their proofs. Returns the number of erased bodies; copies of the file are not changed.

    Raises:
        UsageError: Nothing says what to erase.
        JournalError: It could not be done.
    """
    chosen: list[tuple[str, str | int]] = []
    if run is not None:
        chosen.append(("run = ?", column(run)))
    if call_id is not None:
        chosen.append(("call = ?", column(call_id)))
    if before is not None:
        chosen.append(("at < ?", before))
    if not chosen:
        raise UsageError("say what to erase: a run, a call_id, or everything before a time")
    return _erase_where(path, " AND ".join(test for test, _ in chosen), [value for _, value in chosen], {}, True)


def _erase_in_tables(
    url: StateUrl, condition: str, values: list[Any], fences: Mapping[str, int], thorough: bool
) -> int:
    with closing(_connect(url, statement_timeout="0")) as tables:  # it takes as long as it takes
        tables.execute("BEGIN")
        for run, fence in fences.items():
            held = "SELECT 1 FROM lease WHERE run = ? AND fence = ? FOR SHARE"
            if tables.execute(held, (column(run), fence)).fetchone() is None:
                raise LeaseLost(run)
        tables.execute(f"DELETE FROM exact WHERE seq IN (SELECT seq FROM entry WHERE {condition})", values)
        count = tables.execute(f"UPDATE entry SET salt = NULL, data = NULL WHERE {condition}", values).rowcount
        tables.execute(_NOTE_ERASURE)
        tables.execute("COMMIT")
        if thorough:
            tables.execute("VACUUM entry, exact")  # the old rows are in the files of the server until then
    return count


def erase_runs(place: str | JournalPlace, runs: Iterable[str]) -> int:
    """Remove the bodies of some runs; how many they were.

    Raises:
        JournalError: It could not be done.
    """
    with JournalReader(place) as reader:
        seqs = [entry.seq for run in runs for entry in reader.entries_of(run, heads=True)]
    return erase_entries(place, seqs)


def erase_entries(
    place: str | JournalPlace, seqs: Sequence[int], *, fences: Mapping[str, int] | None = None, thorough: bool = True
) -> int:
    """Remove the bodies of some entries; how many they were.

    Args:
        fences: The leases of their runs in a shared state, by their numbers: if one is lost, nothing is removed.
        thorough: Whether what was removed is also gone from the log of SQLite, and from the files of a server. That can
            be done once, after several times; with no entries, only that is done.

    Raises:
        LeaseLost: Another replica has taken up one of the runs.
        JournalError: It could not be done.
    """
    if isinstance(place, StateUrl):
        return _erase_where(place, "seq = ANY(?)", [list(seqs)], fences or {}, thorough)
    return _erase_where(place, "seq IN (SELECT value FROM json_each(?))", [json.dumps(list(seqs))], {}, thorough)


def _erase_where(
    place: str | JournalPlace, chosen: str, values: list[Any], fences: Mapping[str, int], thorough: bool
) -> int:
    condition = f"data IS NOT NULL AND {chosen}"
    if isinstance(place, StateUrl):
        return _erase_in_tables(place, condition, values, fences, thorough)
    where = Path(place)
    with closing(connect_existing(where, "rw")) as connection:
        try:
            return _erase(connection, where, condition, values, thorough)
        except sqlite3.Error as error:
            raise explain_failure(where, error) from error


_NOTE_ERASURE = """
INSERT INTO meta VALUES ('erasures', '1')
ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(meta.value AS INTEGER) + 1 AS TEXT)
"""
"""Changes with every erasure, for those who remember what was said in a run."""


def _erase(connection: sqlite3.Connection, path: Path, condition: str, values: list[Any], thorough: bool) -> int:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("BEGIN IMMEDIATE")
    if has_exact(connection):
        connection.execute(f"DELETE FROM exact WHERE seq IN (SELECT seq FROM entry WHERE {condition})", values)
    count = connection.execute(f"UPDATE entry SET salt = NULL, data = NULL WHERE {condition}", values).rowcount
    connection.execute(_NOTE_ERASURE)
    connection.execute("COMMIT")
    if not thorough:
        return count
    # The old pages are in the write-ahead log too, until it is emptied.
    (in_the_way, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if in_the_way:
        raise JournalError(
            f"{count} bodies are erased, but a reader of {str(path)!r} keeps old pages of them on disk;"
            " end it and erase again"
        )
    return count
