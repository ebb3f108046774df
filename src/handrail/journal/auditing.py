"""Whether a journal is what was written: everything recomputed, nothing believed.

Each entry is checked against its hash, its neighbour, its run, its columns and its
body, every signed checkpoint against the tree of the entries below it, and the notes on
where each run stands, by which its entries are found, against the entries. What no
checkpoint covers yet is chained, but not signed; a cut there cannot be seen. Someone
who has the key can sign another history: only notes kept elsewhere (`known`) show that.

What leaves the journal leaves it proven: a fresh signature over a changed entry would make the change good. That does
not take an audit (`entry_proofs.py`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from handrail.core.errors import BrokenProof, JournalError
from handrail.core.events import CallAmended
from handrail.core.ids import run_and_above
from handrail.journal.audit_checks import AuditWalk, ProofProblem
from handrail.journal.bundle import BundleEntry, write_bundle
from handrail.journal.entry import body_digest, leaf_position
from handrail.journal.entry_proofs import EntryProofs
from handrail.journal.in_memory import InMemoryJournal
from handrail.journal.keys import Signer, Verifier
from handrail.journal.merkle import leaf_hash
from handrail.journal.note import open_note, sign
from handrail.journal.places import JournalPlace
from handrail.journal.reader import JournalReader, JournalRow
from handrail.journal.verifier import BELOW, included, run_extension

_STRIDE = 1000
"""Entries between two words on how far an audit is."""


class AuditReport(Struct, frozen=True, kw_only=True):
    """What was found in a journal that was checked."""

    ok: bool
    """Whether there is neither a problem nor a violation."""
    entries: int
    bodies: int
    """Bodies that are there and are the right ones."""
    erased: int
    checkpoints: int
    unsigned_tail: int
    """Entries after the last checkpoint: in order, but not signed."""
    problems: tuple[ProofProblem, ...]
    """The first bad entry first."""
    violations: tuple[ProofProblem, ...] = ()
    """Intact entries that tell of a side effect which began although a person had denied it."""


AnyJournal = str | JournalPlace | InMemoryJournal
"""The file of a journal, the address of a shared state, or a journal that has neither."""


def _opened(journal: AnyJournal) -> JournalReader:
    return journal.reader() if isinstance(journal, InMemoryJournal) else JournalReader(journal, still=True)


def audit(
    path: AnyJournal,
    *,
    verifiers: Iterable[Verifier] | None = None,
    known: Iterable[str] = (),
    progress: Callable[[int], None] | None = None,
) -> AuditReport:
    """Check a whole journal, in one pass; `progress` is called from time to time with the number of checked entries.

    Without `verifiers` the key is the one that the journal itself names, which proves only
    that the file agrees with itself. `known` are notes of this journal from elsewhere.

    Raises:
        JournalError: It cannot be read at all, or a later version wrote it.
    """
    with _opened(path) as reader:
        return _audited(reader, verifiers, known, progress)


def _audited(
    reader: JournalReader,
    verifiers: Iterable[Verifier] | None = None,
    known: Iterable[str] = (),
    progress: Callable[[int], None] | None = None,
) -> AuditReport:
    walk = AuditWalk()
    keys = list(verifiers) if verifiers is not None else walk.own_keys(reader.verifier_key)
    stored = reader.checkpoints()
    signed = max((size for size, _, _ in stored), default=0)
    for size, note, frontier in stored:
        walk.expect(note, keys, reader.origin, size, frontier)
    for note in known:
        walk.expect(note, keys, reader.origin)
    walk.expect_spans(reader.spans(), signed)
    for entry in reader.entries():
        walk.take(entry)
        walk.check_exact(entry, reader)
        if progress is not None and walk.count % _STRIDE == 0:
            progress(walk.count)
    walk.finish()
    walk.check_notes(reader)
    problems = sorted(walk.problems, key=lambda problem: (problem.index is None, problem.index or 0))
    return AuditReport(
        ok=not problems and not walk.violations,
        entries=walk.count,
        bodies=walk.bodies,
        erased=walk.erased,
        checkpoints=len(stored),
        unsigned_tail=max(0, walk.count - signed),
        problems=tuple(problems),
        violations=tuple(walk.violations),
    )


class Receipt(Struct, frozen=True, kw_only=True):
    """One entry and everything that shows it is in the journal."""

    call_id: str
    index: int
    size: int
    """The size of the journal that the checkpoint signs."""
    leaf: str
    proof: tuple[str, ...]
    checkpoint: str
    verifier_key: str
    salt: str | None = None
    body: str | None = None
    """The body as JSON text; None once it was erased."""

    def to_json(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self)).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """Read a receipt.

        Raises:
            BrokenProof: It is not one.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise BrokenProof(None, f"this is not a receipt: {error}") from error

    def verify(self, verifier: Verifier) -> None:
        """Return if everything fits, under a key that you trust.

        Raises:
            BrokenProof: Something does not, and what.
        """
        signed = open_note(self.checkpoint, [verifier])
        leaf = self.leaf.encode()
        try:
            proof, salt = [bytes.fromhex(step) for step in self.proof], bytes.fromhex(self.salt or "")
            said = leaf_position(leaf)
        except (ValueError, JournalError) as error:
            raise BrokenProof(self.index, f"the receipt cannot be read: {error}") from error
        if signed.size != self.size or not included(leaf_hash(leaf), self.index, self.size, proof, signed.root):
            raise BrokenProof(self.index, "the entry is not in the journal that was signed")
        if (said.seq, said.call_id) != (self.index, self.call_id):
            raise BrokenProof(self.index, "the receipt is for another entry than it says")
        if self.body is not None and (said.body is None or body_digest(salt, self.body.encode()) != said.body.digest):
            raise BrokenProof(self.index, "the body is not the one that was recorded")


def prove(path: AnyJournal, call_id: str, *, run: str | None = None, signer: Signer | None = None) -> Receipt:
    """The receipt for the answer to a call, which is a person's decision if there is one; else for its intent.

    Raises:
        JournalError: No such call is recorded.
        BrokenProof: The journal was changed.
    """
    with _opened(path) as reader:
        tree = EntryProofs(reader, Verifier.parse(reader.verifier_key))
        found = [each for each in reader.entries_of_call(call_id, run) if each.type.startswith("call.")]
        answers = [entry for entry in found if _is_answer(entry)]
        if not found:
            raise JournalError(f"the journal {str(reader.path)!r} has no call {call_id!r}")
        entry = (answers or found)[-1]
        tree.check(entry, reader)
        if tree.signed is not None and tree.signed[0] > entry.seq:
            (size, note), key = tree.signed, reader.verifier_key
        else:
            signer = signer or reader.signer()
            size, note, key = tree.size, sign(tree.checkpoint(), signer), signer.verifier_key
        proof = tree.path(entry.seq, size)
    return Receipt(
        call_id=call_id,
        index=entry.seq,
        size=size,
        leaf=entry.leaf.decode(),
        proof=tuple(step.hex() for step in proof),
        checkpoint=note,
        verifier_key=key,
        salt=None if entry.salt is None else entry.salt.hex(),
        body=None if entry.data is None else entry.data.decode(),
    )


def _is_answer(entry: JournalRow) -> bool:
    """Whether it answers a call, at first or by a person's decision; what ended late stands only beside the answer."""
    if entry.type == "call.amended":
        event = entry.event
        return isinstance(event, CallAmended) and event.why == "person"
    return entry.type == "call.settled"


def export_run(path: AnyJournal, run: str, folder: str | Path, *, signer: Signer | None = None) -> Path:
    """Write a run as a proof bundle, under a new checkpoint that says how many entries it has.

    Each run that its calls began, as those of agents, is a bundle in its folder `below`.

    Raises:
        JournalError: There is no such run, or the journal cannot be read.
        BrokenProof: The journal was changed.
        UsageError: The folder exists.
    """
    with _opened(path) as reader:
        signer = signer or reader.signer()
        tree = EntryProofs(reader, Verifier.parse(reader.verifier_key))
        names = [each for each in reader.runs_named(run) if run in run_and_above(each)]
        if run not in names:
            raise JournalError(f"the journal {str(reader.path)!r} has no run {run!r}")
        runs = {
            name: tree.run(reader, name) for name in sorted(names, key=lambda name: (name != run, reader.begin(name)))
        }
    target = Path(folder)
    made = False
    try:
        for number, (name, entries) in enumerate(runs.items()):
            checkpoint = tree.checkpoint(run_extension(name, len(entries)))
            write_bundle(
                target / BELOW / f"{number:03d}" if number else target,
                run=name,
                entries=[BundleEntry(each.seq, each.leaf, proof, each.salt, each.data) for each, proof in entries],
                checkpoint_note=sign(checkpoint, signer),
                verifier_key=signer.verifier_key,
            )
            made = True
    except BaseException:
        if made:  # it appears with everything below it, or not at all
            shutil.rmtree(target, ignore_errors=True)
        raise
    return target
