"""Proofs of single entries of a journal, made without reading the other entries.

The last checkpoint is signed. From its frontier the tree goes on over the few entries behind it, each chained to the
one before, as when a writer opens the journal. So whatever is proven here, or signed, continues what was
signed: an entry that was changed since does not lead to the root, whoever changed the stored hashes with it.

That the rest of the journal is unchanged is for `audit` to say.
"""

from __future__ import annotations

from handrail.core.errors import BrokenProof, JournalError
from handrail.journal.audit_checks import body_problem, column_problem
from handrail.journal.entry import NO_PREVIOUS, leaf_position
from handrail.journal.keys import Verifier
from handrail.journal.merkle import Frontier, leaf_hash
from handrail.journal.note import Checkpoint, open_note
from handrail.journal.reader import JournalReader, JournalRow
from handrail.journal.verifier import included


class EntryProofs:
    """The tree of a journal as it stands, under a root that follows from the last signature.

    `before` is what was found earlier: entries that were taken in then are not looked at again.

    Raises:
        BrokenProof: The last checkpoint, or an entry behind it, was changed.
    """

    def __init__(self, reader: JournalReader, verifier: Verifier, before: EntryProofs | None = None) -> None:
        self._tree = reader.tree()
        self._origin = reader.origin
        self.signed: tuple[int, str] | None = None
        """Size and note of the last checkpoint."""
        last = reader.last_checkpoint()
        if before is not None and (None if last is None else last[:2]) == before.signed:
            self.signed, frontier, head = before.signed, before._frontier.copy(), before._head
        else:
            frontier, head = self._signed_part(reader, verifier, last)
        self._head: str = _take_behind(reader, frontier, head)
        self._frontier: Frontier = frontier
        self.size: int = frontier.size
        self.root: bytes = frontier.root()

    def _signed_part(
        self, reader: JournalReader, verifier: Verifier, last: tuple[int, str, bytes] | None
    ) -> tuple[Frontier, str]:
        if last is None:
            return Frontier(), NO_PREVIOUS
        size, note, data = last
        wrong = f"the checkpoint at {size} entries was changed; run: handrail proof verify"
        try:
            known, frontier = open_note(note, [verifier]), Frontier.load(size, data)
        except (ValueError, TypeError, AttributeError) as error:
            raise BrokenProof(None, wrong) from error
        if (known.origin, known.size, known.root) != (self._origin, size, frontier.root()):
            raise BrokenProof(None, wrong)
        before = reader.head(size - 1) if size else None
        if size and before is None:
            raise BrokenProof(size - 1, "it is signed, and missing; run: handrail proof verify")
        self.signed = size, note
        head = NO_PREVIOUS
        if before is not None:
            hashed = leaf_hash(before.leaf)
            if not included(hashed, size - 1, size, list(self._tree.path(size - 1, size)), frontier.root()):
                raise BrokenProof(size - 1, f"it is not what the checkpoint at {size} entries signs")
            head = hashed.hex()
        return frontier, head

    def path(self, seq: int, size: int | None = None) -> tuple[bytes, ...]:
        """The proof of an entry in the tree of the first `size`, by default of all."""
        return self._tree.path(seq, self.size if size is None else size)

    def checkpoint(self, *extensions: str, size: int | None = None) -> Checkpoint:
        """A checkpoint of the first `size` entries, by default of all, to be signed.

        Raises:
            BrokenProof: Those are not the first entries of what was signed.
        """
        if size is None or size == self.size:
            return Checkpoint(self._origin, self.size, self.root, extensions)
        first = self._tree.frontier(size)
        found = first.root()
        self._tree.extend(first, self.size)
        if first.root() != self.root:
            raise BrokenProof(None, "the stored tree is not what was signed; run: handrail proof verify")
        return Checkpoint(self._origin, size, found, extensions)

    def check(self, entry: JournalRow, reader: JournalReader) -> tuple[bytes, ...]:
        """The proof of an entry, if the entry is what was written.

        Raises:
            BrokenProof: It was changed.
        """
        try:
            said, hashed = leaf_position(entry.leaf), leaf_hash(entry.leaf)
            proof = self.path(entry.seq)
            if said.seq != entry.seq or not included(hashed, entry.seq, self.size, list(proof), self.root):
                raise BrokenProof(entry.seq, "it was changed: it is not what was signed; run: handrail proof verify")
            if (problem := column_problem(entry, said) or body_problem(entry, said)) is not None:
                raise BrokenProof(entry.seq, f"{problem}; run: handrail proof verify")
            if said.exact is not None and (sealing := reader.sealing) is not None:
                reader.exact(entry, sealing)
        except BrokenProof:
            raise
        except (JournalError, TypeError, ValueError, AttributeError) as error:
            raise BrokenProof(entry.seq, f"it cannot be read: {error}") from error
        return proof

    def run(self, reader: JournalReader, run: str) -> list[tuple[JournalRow, tuple[bytes, ...]]]:
        """Every entry of a run with its proof.

        Raises:
            BrokenProof: One was changed, or is missing.
        """
        found = [(entry, self.check(entry, reader)) for entry in reader.whole_run(run)]
        for n, (entry, _) in enumerate(found):
            if entry.n != n:
                raise BrokenProof(entry.seq, f"it is number {entry.n} of its run, and should be {n}")
        return found


def _take_behind(reader: JournalReader, frontier: Frontier, head: str) -> str:
    """Take in the entries behind those of a tree; the hash of the last one."""
    size = frontier.size
    for entry in reader.heads(size):
        try:
            said, hashed = leaf_position(entry.leaf), leaf_hash(entry.leaf)
        except (JournalError, TypeError) as error:
            raise BrokenProof(size, f"it cannot be read: {error}") from error
        if entry.seq != size:
            raise BrokenProof(size, f"it is missing; the next one there is {entry.seq}")
        if said.seq != size or hashed != entry.hash:
            raise BrokenProof(size, "it was changed: its hash does not fit")
        if said.prev != head:
            raise BrokenProof(max(0, size - 1), "it is not the one that the next entry was chained to")
        frontier.append(hashed)
        head, size = hashed.hex(), size + 1
    return head
