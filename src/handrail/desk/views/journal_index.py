"""The journal as the views look at it: the runs that somebody looks at, and what is new since the last look.

It signs the journal for whoever looks at a run, and what it signs continues what the journal's last checkpoint signs
(`entry_proofs.py`): an entry that was changed on disk does not fit. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec
from msgspec import Struct

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import JournalError, UsageError
from handrail.core.events import CallSettled, Recorded
from handrail.journal.entry_proofs import EntryProofs
from handrail.journal.note import sign
from handrail.journal.places import JournalPlace
from handrail.journal.reader import JournalReader, JournalRow
from handrail.journal.summaries import RunSummary, RunTally
from handrail.journal.telemetry import RING, Telemetry, ToolTelemetry
from handrail.journal.verifier import run_extension

_KEPT = 100_000
"""Entries of which it is kept whose they are."""
RECENT = 40
"""Durations of a tool that are kept one by one."""
_USED = frozenset({"tools.offered", "call.intended", "call.settled"})


class _RunLeafFields(Struct, frozen=True, gc=False):
    """The two fields of a leaf that a list of runs needs. What is no plain text there is passed over."""

    tool: object = ""
    request: object = ""


_said = msgspec.json.Decoder(_RunLeafFields)


class ToolUsage(Struct, frozen=True):
    """The numbers of `handrail proof stats` for the last entries."""

    tools: dict[str, ToolTelemetry]
    outcomes: dict[str, dict[str, int]]
    recent: dict[str, tuple[int, ...]]


class RunNotes:
    """What is known of one run without its bodies."""

    __slots__ = ("seqs", "tally", "tools", "waiting", "whole")

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        """Whether its entries were found where nobody could have hidden one."""
        self.tally = RunTally(0)
        self.seqs = array("Q")
        self.tools: set[str] = set()
        self.waiting: set[str] = set()
        """Questions that nobody has answered."""

    def take(self, entry: JournalRow) -> None:
        if not self.seqs:
            self.tally.started = entry.at
        self.seqs.append(entry.seq)
        with suppress(JournalError, msgspec.DecodeError, UnicodeDecodeError):  # the walk has seen it, and says so
            self.tally.feed(entry.type, entry.call, entry.at, entry.leaf)
            if entry.type.startswith(("call.", "confirmation.")):
                self._note(entry.type, _said.decode(entry.leaf))

    def _note(self, kind: str, said: _RunLeafFields) -> None:
        if isinstance(said.tool, str) and said.tool:
            self.tools.add(said.tool)
        if kind == "confirmation.requested":
            self.waiting.add(str(said.request))
        elif kind == "confirmation.answered":
            self.waiting.discard(str(said.request))


class RunListing(Struct, frozen=True):
    """A run in a list."""

    summary: RunSummary
    waiting: int
    tools: frozenset[str]


class SignedEntries(Struct, frozen=True):
    """Entries of a run, and what proves them."""

    state: RunListing
    entries: tuple[tuple[JournalRow, tuple[bytes, ...]], ...]
    count: int
    checkpoint: str
    verifier_key: str
    size: int


class JournalIndex:
    def __init__(self, path: JournalPlace) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._next = 0
        """The entry after the last one that was read."""
        self._runs: BoundedMemory[str, RunNotes] = BoundedMemory(
            weight=lambda notes: len(notes.seqs), most_weight=_KEPT, lru=True, keep_newest=True
        )
        """Runs that somebody looked at, as they stand before `_next`."""
        self._tree: EntryProofs | None = None
        self._checked = 0
        """The entries of which it was checked what is noted on whose they are."""
        self._proven: BoundedMemory[int, None] = BoundedMemory(_KEPT)
        """Entries that were shown, and were what was signed."""
        self._used = 0
        """The entry after the last one that was read for the use of tools."""
        self._ring: deque[tuple[int, Recorded]] = deque()
        self._usage: tuple[int, ToolUsage] | None = None

    def usage(self) -> ToolUsage:
        """How often each tool was offered, called and failed.

        Raises:
            JournalError: The journal cannot be read.
        """
        with self._read() as reader:
            if self._usage is None or self._usage[0] != self._next:
                self._usage = self._next, _usage(self._recent(reader))
            return self._usage[1]

    def runs(
        self, before: str | None = None, limit: int | None = None, fits: Callable[[RunListing], bool] = lambda _: True
    ) -> tuple[tuple[RunListing, ...], bool]:
        """Those that fit, the newest first, without those that other runs began, unless somebody has to look at them;
        and whether there are more.

        Raises:
            JournalError: The journal cannot be read.
        """
        found: list[RunListing] = []
        with self._read() as reader:
            for run in reader.newest_runs(before):
                state = _state(run, self._notes(reader, run))
                if _was_begun_by_another(reader, state) or not fits(state):
                    continue
                if len(found) == limit:
                    return tuple(found), True
                found.append(state)
        return tuple(found), False

    def signed(self, run: str, first: int, limit: int, size: int | None = None) -> SignedEntries:
        """Some entries of a run as they stand on disk, under a checkpoint that is signed for this look and not kept.

        `size` is that of an earlier look, for more of the same: the checkpoint is the same then, letter by letter,
        whatever was written since.

        Raises:
            UsageError: There is no such run, or the journal has not so many entries.
            BrokenProof: An entry was changed before it was read here, so it is not signed again.
            JournalError: It cannot be read.
        """
        with self._read() as reader:
            signer = reader.signer()
            tree = self._tree = EntryProofs(reader, signer.verifier, self._tree)
            notes = self._notes(reader, run, whole=True)
            size = tree.size if size is None else size
            if size > tree.size:
                raise UsageError(f"the record has {tree.size} entries, and not {size}; open the run again")
            count = bisect_left(notes.seqs, size)
            note = sign(tree.checkpoint(run_extension(run, count), size=size), signer)
            entries = [reader.entry(seq) for seq in notes.seqs[first : min(first + limit, count)]]
            for entry in entries:
                if entry.seq not in self._proven:
                    tree.check(entry, reader)
                    self._proven[entry.seq] = None
            proven = tuple((entry, tree.path(entry.seq, size)) for entry in entries)
            return SignedEntries(_state(run, notes), proven, count, note, signer.verifier_key, size)

    def entry(self, run: str, seq: int) -> JournalRow:
        """One entry of a run.

        Raises:
            UsageError: The run has no such entry.
        """
        with self._read() as reader:
            if seq not in self._notes(reader, run).seqs:
                raise UsageError(f"the run {run!r} has no entry {seq}")
            return reader.entry(seq)

    def _notes(self, reader: JournalReader, run: str, whole: bool = False) -> RunNotes:
        """What is known of a run; with `whole` from entries that nobody could have hidden."""
        notes = self._runs.get(run)
        if notes is None or (whole and not notes.whole):
            found = (
                reader.whole_run(run, heads=True, checked=self._checked)
                if whole
                else reader.entries_of(run, heads=True)
            )
            notes = RunNotes(whole)
            for entry in found:
                notes.take(entry)
            if whole:
                self._checked = reader.noted()
            if not notes.seqs:
                raise UsageError(f"there is no run {run[:100]!r} in the record")
            self._runs[run] = notes
        return notes

    @contextmanager
    def _read(self) -> Iterator[JournalReader]:
        with self._lock, JournalReader(self.path, still=True) as reader:
            end = reader.end()
            if end - self._next > RING:  # it is quicker to read those runs again that somebody looks at
                self._next = end
                for run in list(self._runs):
                    self._runs.pop(run, None)
            for entry in reader.heads(self._next):
                self._next = entry.seq + 1
                if (notes := self._runs.get(entry.run)) is not None:
                    notes.take(entry)
            yield reader

    def _recent(self, reader: JournalReader) -> list[Recorded]:
        """The last events that count for the use of tools."""
        first = max(0, self._next - RING)
        while self._ring and self._ring[0][0] < first:
            self._ring.popleft()
        for entry in reader.heads(max(first, self._used)):
            if entry.type in _USED:
                with suppress(JournalError):
                    self._ring.append((entry.seq, entry.event))
        self._used = self._next
        return [event for _, event in self._ring]


def _was_begun_by_another(reader: JournalReader, state: RunListing) -> bool:
    """Whether another run began it, and nobody has to look at it: those are named after the one that did."""
    run = state.summary.run
    if state.summary.in_doubt or state.waiting:
        return False
    above = (run[:at] for at, letter in enumerate(run) if letter == ".")
    return any(reader.begin(each) is not None for each in above)


def _state(run: str, notes: RunNotes) -> RunListing:
    return RunListing(notes.tally.summary(run), len(notes.waiting), frozenset(notes.tools))


def _usage(events: list[Recorded]) -> ToolUsage:
    recent: dict[str, deque[int]] = {}
    outcomes: dict[str, dict[str, int]] = {}
    for event in events:
        if isinstance(event, CallSettled):
            counted = outcomes.setdefault(event.tool, {})
            counted[event.outcome] = counted.get(event.outcome, 0) + 1
            if event.ran:
                took = max(1, event.duration_us)
                line = recent.setdefault(event.tool, deque(maxlen=RECENT))
                line.append(took if event.outcome == "ok" else -took)
    tools = {each.tool: each for each in Telemetry.of(events).tools()}
    return ToolUsage(tools, outcomes, {tool: tuple(line) for tool, line in recent.items()})
