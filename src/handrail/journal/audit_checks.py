"""The checks of an audit, from one entry to the next. `audit` drives it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.errors import BrokenProof, JournalError, UsageError
from handrail.journal.audit_notes import NoteChecks
from handrail.journal.confirmations import DenialChecks
from handrail.journal.entry import NO_PREVIOUS, BodyRef, LeafPosition, body_digest, leaf_position
from handrail.journal.escape import unescape
from handrail.journal.keys import Verifier
from handrail.journal.merkle import SIZE, Frontier, leaf_hash
from handrail.journal.note import Checkpoint, open_note
from handrail.journal.reader import JournalReader, JournalRow


class ProofProblem(Struct, frozen=True):
    index: int | None
    """The entry; None when it is the journal as a whole."""
    why: str

    def __str__(self) -> str:
        return f"{'the journal' if self.index is None else f'entry {self.index}'}: {self.why}"


class AuditWalk:
    """The state of an audit, from one entry to the next."""

    def __init__(self) -> None:
        self.problems: list[ProofProblem] = []
        self.violations: list[ProofProblem] = []
        """What is recorded as it happened, and should not have happened."""
        self._denials = DenialChecks()
        self.count = self.bodies = self.erased = 0
        self._expected: dict[int, list[tuple[Checkpoint, bytes | None]]] = {}
        self._tree = Frontier()
        self._seq = 0
        self._heads: tuple[str, ...] = (NO_PREVIOUS,)
        """What the next entry may call the hash of this one; nothing when this one is missing."""
        self._unlinked: int | None = None
        self._positions: dict[str, int] = {}
        self._noted: dict[str, tuple[int, int, int]] = {}
        self._spans: dict[str, tuple[int, int, int]] = {}
        """Where each run stands, as it was noted and as it is: its first entry, its last, and the number of that."""
        self._spanned = 0
        self._notes = NoteChecks()
        self._good = 0
        self._rewritten: tuple[int, int] | None = None
        """The first entries that are not as signed, though nothing else may be wrong with them: from, up to."""

    def own_keys(self, text: str) -> list[Verifier]:
        try:
            return [Verifier.parse(text)]
        except UsageError as error:
            self._bad(None, f"the key it names cannot be used: {error}")
            return []

    def expect(
        self, note: str, keys: list[Verifier], origin: str, size: int | None = None, frontier: bytes | None = None
    ) -> None:
        """A checkpoint that the tree must meet: one of the journal's own, or one from elsewhere."""
        name = "a known checkpoint" if size is None else f"the checkpoint at {size} entries"
        try:
            found = open_note(note, keys)
        except (BrokenProof, AttributeError, TypeError) as error:
            why = error.why if isinstance(error, BrokenProof) else "it is not text"
            self._bad(None, f"{name} does not hold: {why}")
            return
        if found.origin != origin or (size is not None and found.size != size):
            self._bad(None, f"{name} belongs to {found.origin!r} at {found.size} entries")
            return
        self._expected.setdefault(found.size, []).append((found, frontier))

    def expect_spans(self, noted: dict[str, tuple[int, int, int]], size: int) -> None:
        """What the journal notes on its first entries. One that was changed would hide the entries of a run."""
        self._noted, self._spanned = noted, size

    def take(self, entry: JournalRow) -> None:
        if not isinstance(entry.seq, int):
            self._bad(self._seq, "its row has no number: the table itself was changed")
            entry = replace(entry, seq=self._seq)
        if entry.seq != self._seq:
            self._bad(self._seq, f"it is missing; the next one there is {entry.seq}")
            self._seq, self._heads = entry.seq, ()
        try:
            self._check(entry)
        except (JournalError, TypeError, ValueError, AttributeError) as error:
            self._bad(entry.seq, f"it cannot be read: {error}")
            self._heads = ()
        self._seq += 1
        self.count += 1
        self._meet(self._seq)

    def finish(self) -> None:
        if self._unlinked is not None:
            self._bad(max(0, self._unlinked - 1), "it is not the one that the next entry was chained to")
        if self._rewritten is not None:
            first, end = self._rewritten
            if not any(problem.index is not None and problem.index < end for problem in self.problems):
                self._bad(first, f"entries {first} to {end - 1} were rewritten: they are not what a checkpoint signs")
        beyond = max(self._expected, default=0)
        if beyond > self._seq:
            self._bad(
                self._seq, f"it is missing: a signed checkpoint covers {beyond} entries, and {self._seq} are left"
            )
        wrong = [run for run in {**self._noted, **self._spans} if self._noted.get(run) != self._spans.get(run)]
        if wrong and not self.problems:
            self._bad(None, f"the note on where run {wrong[0]!r} stands was changed: its entries are elsewhere")

    def check_notes(self, reader: JournalReader) -> None:
        """Hold what is noted for searches and proofs to the entries, if those are good."""
        if not self.problems and (problem := self._notes.problem(reader, self._tree)) is not None:
            self._bad(None, problem)

    def _bad(self, index: int | None, why: str) -> None:
        self.problems.append(ProofProblem(index, why))

    def _check(self, entry: JournalRow) -> None:
        if not isinstance(entry.leaf, bytes) or not isinstance(entry.hash, bytes):
            raise JournalError("its leaf or its hash is no longer stored as bytes")
        hashed = leaf_hash(entry.leaf)
        self._tree.append(entry.hash if len(entry.hash) == SIZE else hashed)
        if hashed != entry.hash:
            self._bad(entry.seq, "it was changed: its hash does not fit")
        said = leaf_position(entry.leaf)
        self._notes.take(entry, said)
        self._link(entry.seq, said)
        self._heads = (entry.hash.hex(), hashed.hex())
        self._compare(entry, said)
        self._check_body(entry, said)
        if (violation := self._denials.violation(said.type, entry.leaf)) is not None:
            self.violations.append(ProofProblem(entry.seq, violation))

    def _link(self, seq: int, said: LeafPosition) -> None:
        """Checks the link of two entries. If they do not fit, the first is bad if the one after them vouches for the
        second."""
        # Where entries are missing, what follows says so itself by its number, and cannot be linked.
        linked = not self._heads or said.prev in self._heads or said.seq > seq
        if self._unlinked is not None:
            if linked:
                self._bad(max(0, self._unlinked - 1), "it is not the one that the next entry was chained to")
            else:
                self._bad(self._unlinked, "it is chained neither to the entry before nor to the one after it")
            self._unlinked = None
        elif not linked:
            self._unlinked = seq

    def _compare(self, entry: JournalRow, said: LeafPosition) -> None:
        run = unescape(said.run)
        if said.seq != entry.seq:
            self._bad(entry.seq, f"it was moved: it says that it is entry {said.seq}")
        if said.n != self._positions.get(run, 0):
            self._bad(entry.seq, f"it is number {said.n} of its run, and should be {self._positions.get(run, 0)}")
        self._positions[run] = said.n + 1
        if entry.seq < self._spanned:
            first, *_ = self._spans.get(run, (entry.seq,))
            self._spans[run] = (first, entry.seq, said.n)
        if (problem := column_problem(entry, said)) is not None:
            self._bad(entry.seq, problem)

    def _check_body(self, entry: JournalRow, said: LeafPosition) -> None:
        problem = body_problem(entry, said)
        if problem is not None:
            self._bad(entry.seq, problem)
        elif said.body is not None:
            self.erased += entry.data is None
            self.bodies += entry.data is not None

    def check_exact(self, entry: JournalRow, reader: JournalReader) -> None:
        """Hold the exact arguments of an entry, if it keeps them, to the digest in its leaf. That takes the key."""
        if not isinstance(entry.leaf, bytes) or b'"exact":' not in entry.leaf or (sealing := reader.sealing) is None:
            return
        try:
            reader.exact(entry, sealing)
        except (JournalError, TypeError, ValueError, AttributeError) as error:
            self._bad(entry.seq, str(error))

    def _meet(self, size: int) -> None:
        for signed, frontier in self._expected.pop(size, ()):
            if signed.root == self._tree.root():
                self._good = size
                if frontier is not None and frontier != self._tree.save():
                    self._bad(None, f"the checkpoint at {size} entries was changed: its frontier does not fit")
            elif self._rewritten is None:
                self._rewritten = max(self._good, _first_difference(self._tree, signed, frontier)), size


def column_problem(entry: JournalRow, said: LeafPosition) -> str | None:
    """What is wrong about the columns of a row, beside what its leaf says."""
    row = (entry.run, entry.n, entry.call, entry.type, entry.at)
    if row == (unescape(said.run), said.n, unescape(said.call_id) or None, said.type, said.at):
        return None
    return "its row was changed: the columns are not what the entry says"


def body_problem(entry: JournalRow, said: LeafPosition) -> str | None:
    """What is wrong about the body of an entry; nothing about one that was erased."""
    match said.body, entry.salt, entry.data:
        case (None, None, None) | (BodyRef(), None, None):
            return None
        case None, _, _:
            return "it has a body, and should have none"
        case ref, bytes(salt), bytes(data) if ref.digest == body_digest(salt, data) and ref.size == len(data):
            return None
    return "its body was changed: the digest does not fit"


def _first_difference(tree: Frontier, signed: Checkpoint, frontier: bytes | None) -> int:
    """The position of the first subtree that is not as it was signed. A frontier tells it only if it has the signed
    root."""
    try:
        if frontier is None or Frontier.load(signed.size, frontier).root() != signed.root:
            return 0
    except (ValueError, TypeError):
        return 0
    ours, start = tree.save(), 0
    widths = [1 << bit for bit in reversed(range(signed.size.bit_length())) if signed.size >> bit & 1]
    for peak, width in enumerate(widths):
        if ours[peak * SIZE : (peak + 1) * SIZE] != frontier[peak * SIZE : (peak + 1) * SIZE]:
            return start
        start += width
    return 0
