"""The journal as the views look at it: read once from its beginning, and then only what is new.

What it has read it checks as an audit does, and keeps the hashes. So it can sign the journal for whoever looks at a
run without reading all of it again, and what is changed on disk afterwards does not fit what it signs. Everything here
blocks: call it in a thread.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec
from msgspec import Struct

from handrail.core.errors import BrokenProof, JournalError, UsageError
from handrail.core.events import CallSettled, Recorded
from handrail.journal.audit_checks import AuditWalk
from handrail.journal.merkle import inclusion_proofs, root
from handrail.journal.note import Checkpoint, open_note, sign
from handrail.journal.places import JournalPlace
from handrail.journal.reader import JournalReader, JournalRow
from handrail.journal.summaries import RunSummary, RunTally
from handrail.journal.telemetry import RING, Telemetry, ToolTelemetry
from handrail.journal.verifier import run_extension

RECENT = 40
"""Durations of a tool that are kept one by one."""
_USED = frozenset({"tools.offered", "call.intended", "call.settled"})


class _RunLeafFields(Struct, frozen=True, gc=False):
    """The two fields of a leaf that a list of runs needs. What is no plain text there is passed over."""

    tool: object = ""
    request: object = ""


_said = msgspec.json.Decoder(_RunLeafFields)


class ToolUsage(Struct, frozen=True):
    """How the tools did, in the last entries: the numbers of `handrail proof stats`."""

    tools: dict[str, ToolTelemetry]
    outcomes: dict[str, dict[str, int]]
    recent: dict[str, tuple[int, ...]]


class RunNotes:
    """What is known of one run without its bodies."""

    __slots__ = ("seqs", "tally", "tools", "waiting")

    def __init__(self, at: int) -> None:
        self.tally = RunTally(at)
        self.seqs = array("Q")
        self.tools: set[str] = set()
        self.waiting: set[str] = set()
        """Questions that nobody has answered."""

    def take(self, entry: JournalRow) -> None:
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
        self._walk = AuditWalk()
        self._next = 0
        self._hashes: list[bytes] = []
        self._signed = 0
        """The largest checkpoint of the journal's own that was found to fit."""
        self._runs: dict[str, RunNotes] = {}
        self._unread: deque[JournalRow] = deque()
        """Entries that count for the use of tools; they are read once it is clear that they are among the last."""
        self._ring: deque[tuple[int, Recorded]] = deque()
        self._usage: tuple[int, ToolUsage] | None = None

    def usage(self) -> ToolUsage:
        """How often each tool was offered, called and failed.

        Raises:
            JournalError: The journal cannot be read.
        """
        with self._read():
            size = len(self._hashes)
            if self._usage is None or self._usage[0] != size:
                self._usage = size, _usage(self._recent())
            return self._usage[1]

    def runs(self) -> tuple[RunListing, ...]:
        """All of them, the newest first.

        Raises:
            JournalError: The journal cannot be read.
        """
        with self._read():
            return tuple(_state(run, notes) for run, notes in reversed(self._runs.items()))

    def signed(self, run: str, first: int, limit: int, size: int | None = None) -> SignedEntries:
        """Some entries of a run as they stand on disk, under a checkpoint that is signed for this look and not kept.

        `size` is that of an earlier look, for more of the same: the checkpoint is the same then, letter by letter,
        whatever was written since.

        Raises:
            UsageError: There is no such run, or the journal has not so many entries.
            BrokenProof: The journal was changed before it was read here, so nothing of it is signed again.
            JournalError: It cannot be read.
        """
        with self._read() as reader:
            signer = reader.signer()
            self._check(reader)
            notes, whole = self._notes(run), len(self._hashes)
            size = whole if size is None else size
            if size > whole:
                raise UsageError(f"the record has {whole} entries, and not {size}; open the run again")
            count = bisect_left(notes.seqs, size)
            extension = run_extension(run, count)
            note = sign(Checkpoint(reader.origin, size, root(self._hashes[:size]), (extension,)), signer)
            seqs = list(notes.seqs[first : min(first + limit, count)])
            proofs = inclusion_proofs(self._hashes, seqs, size)
            entries = tuple((reader.entry(seq), tuple(proof)) for seq, proof in zip(seqs, proofs, strict=True))
            return SignedEntries(_state(run, notes), entries, count, note, signer.verifier_key, size)

    def entry(self, run: str, seq: int) -> JournalRow:
        """One entry of a run.

        Raises:
            UsageError: The run has no such entry.
        """
        with self._read() as reader:
            if seq not in self._notes(run).seqs:
                raise UsageError(f"the run {run!r} has no entry {seq}")
            return reader.entry(seq)

    def _notes(self, run: str) -> RunNotes:
        if run not in self._runs:
            raise UsageError(f"there is no run {run[:100]!r} in the record")
        return self._runs[run]

    @contextmanager
    def _read(self) -> Iterator[JournalReader]:
        with self._lock, JournalReader(self.path, still=True) as reader:
            for entry in reader.heads(self._next):
                self._take(entry)
            yield reader

    def _take(self, entry: JournalRow) -> None:
        self._walk.take(entry)
        self._hashes.append(entry.hash)
        self._next = entry.seq + 1
        if entry.run not in self._runs:
            self._runs[entry.run] = RunNotes(entry.at)
        self._runs[entry.run].take(entry)
        if entry.type in _USED:
            self._unread.append(entry)
            while self._unread[0].seq < self._next - RING:
                self._unread.popleft()

    def _recent(self) -> list[Recorded]:
        while self._unread:
            entry = self._unread.popleft()
            with suppress(JournalError):
                self._ring.append((entry.seq, entry.event))
        while self._ring and self._ring[0][0] < self._next - RING:
            self._ring.popleft()
        return [event for _, event in self._ring]

    def _check(self, reader: JournalReader) -> None:
        """Checks what was read against the journal's tree and signature.

        Raises:
            BrokenProof: What was read does not fit together, or is not what the journal's own key signed.
        """
        if not self._walk.problems:
            self._walk.finish()
        if self._walk.problems:
            first = self._walk.problems[0]
            raise BrokenProof(first.index, first.why)
        last = len(self._hashes) - 1
        if last >= 0 and reader.entry(last).hash != self._hashes[last]:
            raise BrokenProof(last, "it is not what was there before: the journal was written anew")
        size, note = reader.signed() or (0, "")
        if size > self._signed:
            known = open_note(note, [reader.signer().verifier])
            if (known.size, known.root) != (size, root(self._hashes[:size])):
                raise BrokenProof(None, f"the checkpoint at {size} entries does not fit them")
            self._signed = size


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
