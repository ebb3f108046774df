"""The Merkle tree of RFC 9162 (the same tree as RFC 6962), over leaf hashes.

Everything here takes and gives hashes of 32 bytes; `leaf_hash` makes one from the
bytes of an entry. It stores nothing and knows nothing of journals or signatures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

SIZE = 32
EMPTY = hashlib.sha256().digest()
"""The root of a tree without leaves."""


_LEAF = hashlib.sha256(b"\x00")
"""Copying it is quicker than making a new one, and the journal does it for every entry."""


def leaf_hash(data: bytes) -> bytes:
    hashed = _LEAF.copy()
    hashed.update(data)
    return hashed.digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


KEPT = 6
"""The root of a whole subtree is worth keeping if its level is a multiple of this: of 64 leaves, of 4,096 and so on."""


class Frontier:
    """The right edge of a growing tree: enough to add leaves and to know the root, and no more.

    It holds one hash for each set bit of its size, so a million leaves need at most twenty. Beside them it collects in
    `whole` the roots of subtrees that are worth keeping, by level and first leaf, until somebody takes them.
    """

    __slots__ = ("_peaks", "_size", "whole")

    def __init__(self) -> None:
        self._size = 0
        self._peaks: list[bytes] = []
        self.whole: dict[tuple[int, int], bytes] = {}

    @property
    def size(self) -> int:
        return self._size

    def append(self, leaf: bytes) -> None:
        """Add a leaf hash."""
        if len(leaf) != SIZE:
            raise ValueError(f"a leaf hash has {SIZE} bytes, not {len(leaf)}; pass leaf_hash(data)")
        full = self._size
        self._size += 1
        if not self._size % (1 << KEPT):
            self._append_last_of_block(leaf, full)
            return
        while full & 1:
            leaf = node_hash(self._peaks.pop(), leaf)
            full >>= 1
        self._peaks.append(leaf)

    def _append_last_of_block(self, leaf: bytes, full: int) -> None:
        """Add a leaf that makes a subtree whole whose root is worth keeping."""
        level = 0
        while full & 1:
            leaf = node_hash(self._peaks.pop(), leaf)
            full >>= 1
            level += 1
            if not level % KEPT:
                self.whole[level, self._size - (1 << level)] = leaf
        self._peaks.append(leaf)

    def append_subtree(self, level: int, node: bytes) -> None:
        """Add 2**level leaves, of which only the root of their subtree is known.

        Raises:
            ValueError: No such subtree can begin here.
        """
        full, rest = divmod(self._size, 1 << level)
        if rest:
            raise ValueError(f"a subtree of {1 << level} leaves cannot begin after {self._size}")
        while full & 1:
            node = node_hash(self._peaks.pop(), node)
            full >>= 1
        self._peaks.append(node)
        self._size += 1 << level

    def root(self) -> bytes:
        if not self._peaks:
            return EMPTY
        found = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            found = node_hash(peak, found)
        return found

    def copy(self) -> Frontier:
        return Frontier.load(self._size, self.save())

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


Node = Callable[[int, int], bytes]
"""The root of a whole subtree, by its level and its first leaf."""


def inclusion_path(node: Node, index: int, size: int) -> list[bytes]:
    """The proof that a leaf is in the tree of the first `size` leaves, from the roots of whole subtrees."""
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has no leaf {index}")
    path, start, end = [], 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(_subtree(node, middle, end))
            end = middle
        else:
            path.append(_subtree(node, start, middle))
            start = middle
    return path[::-1]


def whole_subtrees(start: int, end: int) -> Iterator[tuple[int, int]]:
    """The fewest whole subtrees that have the leaves from `start` up to `end`: level and first leaf of each."""
    while start < end:
        level = (end - start).bit_length() - 1
        if start:
            level = min(level, (start & -start).bit_length() - 1)
        yield level, start
        start += 1 << level


def _split(width: int) -> int:
    """The largest power of two below `width`: how many leaves go to the left."""
    return 1 << ((width - 1).bit_length() - 1)


def _subtree(node: Node, start: int, end: int) -> bytes:
    width = end - start
    if width & (width - 1) == 0:
        return node(width.bit_length() - 1, start)
    middle = start + _split(width)
    return node_hash(_subtree(node, start, middle), _subtree(node, middle, end))
