"""The vectors of a corpus as one matrix in memory, and which of them are near."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import islice
from typing import Any

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import MissingExtra

_KEPT = 8


class VectorMatrices:
    """The vectors of corpora as matrices, the newest used ones in memory."""

    def __init__(self, floor: float) -> None:
        try:
            import numpy
        except ImportError as error:
            raise MissingExtra("searching by meaning", "rag") from error
        self._numpy = numpy
        self._floor = floor
        self._kept = BoundedMemory[str, tuple[tuple[int, str], Any]](_KEPT)

    def of(self, connection: sqlite3.Connection, corpus: str, generation: int, embedder: str) -> Any:
        state = (generation, embedder)
        known = self._kept.get(corpus)
        if known is None or known[0] != state:
            known = (state, self._load(connection, corpus, embedder))
        self._kept[corpus] = known
        return known[1]

    def nearest(self, matrix: Any, meaning: Sequence[float], allowed: set[int] | None, most: int) -> list[int]:
        ids, vectors = matrix
        if not len(ids) or vectors.shape[1] != len(meaning):
            return []
        near = vectors @ self._numpy.asarray(meaning, dtype="float32")
        order = self._numpy.argsort(-near, kind="stable")
        found = (int(ids[at]) for at in order if near[at] >= self._floor)
        return list(islice((id for id in found if allowed is None or id in allowed), most))

    def _load(self, connection: sqlite3.Connection, corpus: str, embedder: str) -> Any:
        rows = connection.execute(
            "SELECT c.id, c.vector FROM chunk c JOIN document d ON d.id = c.document "
            "WHERE d.corpus = ? AND d.embedder = ? AND c.vector IS NOT NULL ORDER BY c.id",
            (corpus, embedder),
        ).fetchall()
        width = len(rows[-1][1]) // 4 if rows else 0
        alike = [row for row in rows if len(row[1]) == 4 * width]  # as the newest: an embedder may have been set again
        ids = self._numpy.array([id for id, _ in alike], dtype="int64")
        packed = b"".join(vector for _, vector in alike)
        return ids, self._numpy.frombuffer(packed, dtype="float32").reshape(len(ids), width)
