"""Proofs from the leaf hashes of a whole tree, as `StoredTree` makes them from the hashes that it keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from handrail.journal.merkle import inclusion_path, node_hash


def inclusion_proofs(leaves: Sequence[bytes], indexes: Iterable[int], size: int) -> list[list[bytes]]:
    """For each index a proof that its leaf is in the tree of the first `size` leaves; `verifier.included` checks one.

    The tree is hashed once, so many proofs cost little more than one.
    """
    if not 0 <= size <= len(leaves):
        raise ValueError(f"a tree of {size} leaves cannot be made of {len(leaves)}")
    levels = _levels(leaves[:size])

    def node(level: int, start: int) -> bytes:
        return levels[level][start >> level]

    return [inclusion_path(node, index, size) for index in indexes]


def _levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """The whole subtrees: of 1 leaf, of 2, of 4 and so on."""
    levels = [list(leaves)]
    while len(below := levels[-1]) > 1:
        levels.append([node_hash(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)])
    return levels
