"""The Merkle tree of RFC 9162 (the same tree as RFC 6962), over leaf hashes.

Everything here takes and gives hashes of 32 bytes; `leaf_hash` makes one from the
bytes of an entry. It stores nothing and knows nothing of journals or signatures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

SIZE = 32
EMPTY = hashlib.sha256().digest()
"""The root of a tree without leaves."""


_LEAF = hashlib.sha256(b"\x00")
"""To copy it is quicker than to begin anew, and the journal does it for every entry."""


def leaf_hash(data: bytes) -> bytes:
    hashed = _LEAF.copy()
    hashed.update(data)
    return hashed.digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """The right edge of a growing tree: enough to add leaves and to know the root, and no more.

    It holds one hash for each set bit of its size, so a million leaves need at most twenty.
    """

    __slots__ = ("_peaks", "_size")

    def __init__(self) -> None:
        self._size = 0
        self._peaks: list[bytes] = []

    @property
    def size(self) -> int:
        return self._size

    def append(self, leaf: bytes) -> None:
        """Add a leaf hash."""
        if len(leaf) != SIZE:
            raise ValueError(f"a leaf hash has {SIZE} bytes, not {len(leaf)}; pass leaf_hash(data)")
        full = self._size
        while full & 1:
            leaf = node_hash(self._peaks.pop(), leaf)
            full >>= 1
        self._peaks.append(leaf)
        self._size += 1

    def root(self) -> bytes:
        if not self._peaks:
            return EMPTY
        found = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            found = node_hash(peak, found)
        return found

    def save(self) -> bytes:
        """The hashes it holds, largest subtree first; with the size, all there is to it."""
        return b"".join(self._peaks)

    @classmethod
    def load(cls, size: int, data: bytes) -> Frontier:
        """Take up what `save` gave.

        Raises:
            ValueError: The data cannot be that of a tree of this size.
        """
        if size < 0 or len(data) != SIZE * size.bit_count():
            raise ValueError(f"{len(data)} bytes are not the frontier of a tree of {size} leaves")
        frontier = cls()
        frontier._size = size
        frontier._peaks = [data[at : at + SIZE] for at in range(0, len(data), SIZE)]
        return frontier


def root(leaves: Iterable[bytes]) -> bytes:
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    return frontier.root()


def inclusion_proofs(leaves: Sequence[bytes], indexes: Iterable[int], size: int) -> list[list[bytes]]:
    """For each index a proof that its leaf is in the tree of the first `size` leaves; `verifier.included` checks one.

    The tree is hashed once, so many proofs cost little more than one.
    """
    if not 0 <= size <= len(leaves):
        raise ValueError(f"a tree of {size} leaves cannot be made of {len(leaves)}")
    levels = _levels(leaves[:size])
    return [_path(levels, index, size) for index in indexes]


def _levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """The whole subtrees: of 1 leaf, of 2, of 4 and so on."""
    levels = [list(leaves)]
    while len(below := levels[-1]) > 1:
        levels.append([node_hash(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)])
    return levels


def _split(width: int) -> int:
    """The largest power of two below `width`: how many leaves go to the left."""
    return 1 << ((width - 1).bit_length() - 1)


def _subtree(levels: list[list[bytes]], start: int, end: int) -> bytes:
    width = end - start
    if width & (width - 1) == 0:
        return levels[width.bit_length() - 1][start // width]
    middle = start + _split(width)
    return node_hash(_subtree(levels, start, middle), _subtree(levels, middle, end))


def _path(levels: list[list[bytes]], index: int, size: int) -> list[bytes]:
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has no leaf {index}")
    path, start, end = [], 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(_subtree(levels, middle, end))
            end = middle
        else:
            path.append(_subtree(levels, start, middle))
            start = middle
    return path[::-1]
