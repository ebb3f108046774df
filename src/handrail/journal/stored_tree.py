"""The tree of a journal where it is stored: roots of whole subtrees, so that a proof reads few hashes.

The root of every 64 entries is kept, and of every 64 of those, and so on. It is written with the checkpoint that first
covers it. One that is not there, as in a journal of an earlier handrail, is made from what is below it. Nothing here is
believed: a proof made of it must lead to a root that was signed.
"""

from __future__ import annotations

import sqlite3

from handrail.core.errors import BrokenProof
from handrail.journal.merkle import KEPT, SIZE, Frontier, inclusion_path, node_hash, whole_subtrees

TABLE = """
CREATE TABLE IF NOT EXISTS subtree (
    level INTEGER NOT NULL, start INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (level, start)
) WITHOUT ROWID
"""
INSERT = "INSERT INTO subtree VALUES (?, ?, ?) ON CONFLICT (level, start) DO UPDATE SET hash = excluded.hash"
_LEAVES = "SELECT 0, seq, hash FROM entry WHERE seq >= :start AND seq < :end"
_NODES = "SELECT level, start, hash FROM subtree WHERE level = :level AND start >= :start AND start < :end"


class StoredTree:
    """Reads nodes of the tree from a journal, a block of 64 at a time, and remembers them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._nodes: dict[tuple[int, int], bytes] = {}
        self._loaded: set[tuple[int, int]] = set()
        self._has_nodes = has_table(connection, "subtree")

    def node(self, level: int, start: int) -> bytes:
        """The root of the whole subtree of 2**level entries that begins with `start`.

        Raises:
            BrokenProof: An entry below it is missing.
        """
        found = self._nodes.get((level, start))
        if found is not None:
            return found
        if not level % KEPT:
            self._load(level, start)
            found = self._nodes.get((level, start))
            if found is not None:
                return found
        if level == 0:
            raise BrokenProof(start, "it is missing; run: handrail proof verify")
        half = 1 << (level - 1)
        found = self._nodes[level, start] = node_hash(self.node(level - 1, start), self.node(level - 1, start + half))
        return found

    def path(self, index: int, size: int) -> tuple[bytes, ...]:
        """The proof that an entry is in the tree of the first `size`."""
        return tuple(inclusion_path(self.node, index, size))

    def frontier(self, size: int) -> Frontier:
        """The right edge of the tree of the first `size` entries."""
        frontier = Frontier()
        self.extend(frontier, size)
        return frontier

    def extend(self, frontier: Frontier, size: int) -> None:
        """Add the entries that are missing to a tree of `size`."""
        for level, start in whole_subtrees(frontier.size, size):
            frontier.append_subtree(level, self.node(level, start))

    def missing(self, start: int, end: int) -> list[tuple[int, int, bytes]]:
        """The nodes that are worth keeping, become whole between two entries, and are not kept: rows to insert."""
        rows = []
        level = KEPT
        while (width := 1 << level) <= end:
            for first in range(start // width * width, end - width + 1, width):
                if first + width > start and not self._is_kept(level, first):
                    rows.append((level, first, self.node(level, first)))
            level += KEPT
        return rows

    def _is_kept(self, level: int, start: int) -> bool:
        query = "SELECT 1 FROM subtree WHERE level = ? AND start = ?"
        return self._connection.execute(query, (level, start)).fetchone() is not None

    def _load(self, level: int, start: int) -> None:
        # Without kept nodes a proof needs every leaf: they are read at once.
        width = 1 << (level + KEPT if self._has_nodes else 62)
        first = start // width * width
        if (level, first) in self._loaded or (level and not self._has_nodes):
            return
        self._loaded.add((level, first))
        values = {"level": level, "start": first, "end": first + width}
        queries = ([_NODES] if self._has_nodes else []) + ([_LEAVES] if level == 0 else [])
        for query in queries:
            for at, where, hashed in self._connection.execute(query, values):
                if not isinstance(hashed, bytes) or len(hashed) != SIZE:
                    raise BrokenProof(where, "its hash is not one; run: handrail proof verify")
                self._nodes[at, where] = hashed


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Whether a journal has a table; one of an earlier handrail that was only read since has not all of them."""
    files = isinstance(connection, sqlite3.Connection)
    query = "SELECT 1 FROM sqlite_master WHERE name = ?" if files else "SELECT 1 WHERE to_regclass(?) IS NOT NULL"
    return connection.execute(query, (name,)).fetchone() is not None
