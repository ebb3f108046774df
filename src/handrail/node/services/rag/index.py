"""The index: chunks of documents in corpora, found by words (FTS5) and by meaning (vectors), the two rankings fused."""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from handrail.core.ports import Embedder
from handrail.node.services.languages import is_small_word
from handrail.node.services.rag.chunks import DocumentChunk
from handrail.node.services.rag.vector_matrices import VectorMatrices
from handrail.state.schema import Migration
from handrail.state.sql import StoreTables
from handrail.state.sqlite_database import SqliteDatabase

TABLES = StoreTables(
    "rag",
    sqlite=(
        Migration(
            "0.1.0",
            """
            CREATE TABLE corpus (name TEXT PRIMARY KEY, generation INTEGER NOT NULL);
            CREATE TABLE document (
                id INTEGER PRIMARY KEY, corpus TEXT NOT NULL REFERENCES corpus, source TEXT NOT NULL, cid TEXT NOT NULL,
                title TEXT NOT NULL, language TEXT, year INTEGER, size INTEGER NOT NULL, embedder TEXT,
                UNIQUE (corpus, source)
            );
            CREATE TABLE chunk (
                id INTEGER PRIMARY KEY, document INTEGER NOT NULL REFERENCES document ON DELETE CASCADE,
                number INTEGER NOT NULL, page INTEGER, text TEXT NOT NULL, vector BLOB
            );
            CREATE INDEX chunk_document ON chunk (document);
            CREATE VIRTUAL TABLE words USING fts5 (text, title, tokenize = 'unicode61 remove_diacritics 2')
            """,
        ),
        Migration("0.1.0", "DROP TABLE IF EXISTS kind"),
    ),
    postgres=(),
)
"""An index is made of documents that are elsewhere, and searched by what only SQLite has: each replica has its own."""
_WORD = re.compile(r"\w+")
_MOST_WORDS = 64
_POOL = 100
"""The number of results of each ranking that are fused."""
_BATCH = 256
_DAMPING = 60
"""The constant of reciprocal-rank fusion: how little the first places stand out."""


class NewDocument(NamedTuple):
    corpus: str
    source: str
    """What it is known by: another document of the same corpus and source takes its place."""
    cid: str
    title: str
    language: str | None
    year: int | None
    size: int


class ChunkFilter(NamedTuple):
    language: str | None = None
    min_year: int | None = None

    def sql(self) -> tuple[str, list[Any]]:
        rules = {"d.language = ?": self.language, "d.year >= ?": self.min_year}
        used = {rule: value for rule, value in rules.items() if value is not None}
        return "".join(f" AND {rule}" for rule in used), list(used.values())


class FoundChunk(NamedTuple):
    score: float
    """1 is the first of every ranking."""
    id: int
    text: str
    page: int | None
    number: int
    cid: str
    title: str


class CorpusSummary(NamedTuple):
    name: str
    docs: int
    chunks: int
    size: int
    language: str | None


class DocumentIndex:
    """A file, or memory where there is no path. Several processes may use one file.

    Raises:
        MissingExtra: There is an embedder, and nothing to compare its vectors with.
    """

    def __init__(self, path: Path | None, embedder: Embedder | None, *, floor: float = 0.15) -> None:
        self._database = SqliteDatabase(path, TABLES)
        self._embedder = embedder
        self._vectors = None if embedder is None else VectorMatrices(floor)

    @property
    def by_meaning(self) -> str | None:
        """What compares meanings here, if anything does."""
        return None if self._embedder is None else type(self._embedder).__name__

    async def add(
        self, document: NewDocument, chunks: Sequence[DocumentChunk], vectors: Sequence[Sequence[float]]
    ) -> bool:
        """Index a document in place of the one of its source. False: exactly this one was there already."""

        def work(connection: sqlite3.Connection) -> bool:
            if _same(connection, document, self.by_meaning, len(chunks)):
                return False
            _remove(connection, document.corpus, document.source)
            _insert(connection, document, chunks, vectors, self.by_meaning)
            return True

        return await self._database.write(work)

    def embedded(self, chunks: Iterable[DocumentChunk]) -> list[list[float]]:
        """The meaning of each chunk; nothing without an embedder. It takes its time: call it off the loop."""
        if self._embedder is None:
            return []
        texts = [chunk.text for chunk in chunks]
        batches = (texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH))
        return [vector for batch in batches for vector in self._embedder.embed(batch)]

    async def corpora(self) -> list[CorpusSummary]:
        return await self._database.read(_corpora)

    async def query(self, corpus: str, query: str, k: int, only: ChunkFilter) -> list[FoundChunk] | None:
        """The best chunks, or None if there is no such corpus."""
        wanted = self._embedder

        def work(connection: sqlite3.Connection) -> list[FoundChunk] | None:
            known = connection.execute("SELECT generation FROM corpus WHERE name = ?", (corpus,)).fetchone()
            if known is None:
                return None
            rankings = [_by_words(connection, corpus, query, only)]
            if wanted is not None and self._vectors is not None and query.strip():
                meaning = wanted.embed([query])[0]
                allowed = _allowed(connection, corpus, only)
                matrix = self._vectors.of(connection, corpus, known[0], type(wanted).__name__)
                rankings.append(self._vectors.nearest(matrix, meaning, allowed, _POOL))
            return _fetched(connection, fuse_rankings(rankings)[:k])

        return await self._database.read(work)

    def close(self) -> None:
        self._database.close()


def fuse_rankings(rankings: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Reciprocal-rank fusion: what several rankings have near their top comes first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, id in enumerate(ranking, 1):
            scores[id] = scores.get(id, 0.0) + (_DAMPING + 1) / (_DAMPING + place) / len(rankings)
    return sorted(scores.items(), key=lambda each: (-each[1], each[0]))


def match_expression(query: str) -> str:
    """Any text as words to look for. Each is quoted, so that nothing in it is an operator; long ones may go on."""
    words = list(dict.fromkeys(_WORD.findall(fold_text(query))))
    telling = [word for word in words if not is_small_word(word)] or words
    return " OR ".join(f'"{word}"{"*" if len(word) > 4 else ""}' for word in telling[:_MOST_WORDS])


def fold_text(text: str) -> str:
    """As it is compared: its letters put together in one way and in one case; ß is ss, and a ligature its letters."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _by_words(connection: sqlite3.Connection, corpus: str, query: str, only: ChunkFilter) -> list[int]:
    expression = match_expression(query)
    if not expression:
        return []
    rule, values = only.sql()
    rows = connection.execute(
        "SELECT c.id FROM words JOIN chunk c ON c.id = words.rowid JOIN document d ON d.id = c.document "
        f"WHERE words MATCH ? AND d.corpus = ?{rule} ORDER BY bm25(words, 1.0, 0.5), c.id LIMIT ?",
        (expression, corpus, *values, _POOL),
    )
    return [id for (id,) in rows]


def _allowed(connection: sqlite3.Connection, corpus: str, only: ChunkFilter) -> set[int] | None:
    rule, values = only.sql()
    if not rule:
        return None
    rows = connection.execute(
        f"SELECT c.id FROM chunk c JOIN document d ON d.id = c.document WHERE d.corpus = ?{rule}", (corpus, *values)
    )
    return {id for (id,) in rows}


def _fetched(connection: sqlite3.Connection, ranked: Sequence[tuple[int, float]]) -> list[FoundChunk]:
    found = []
    for id, score in ranked:
        row = connection.execute(
            "SELECT c.id, c.text, c.page, c.number, d.cid, d.title FROM chunk c JOIN document d ON d.id = c.document "
            "WHERE c.id = ?",
            (id,),
        ).fetchone()
        found.append(FoundChunk(score, *row))
    return found


def _same(connection: sqlite3.Connection, document: NewDocument, embedder: str | None, chunks: int) -> bool:
    row = connection.execute(
        "SELECT cid, title, language, year, size, embedder, (SELECT count(*) FROM chunk WHERE document = d.id) "
        "FROM document d WHERE corpus = ? AND source = ?",
        (document.corpus, document.source),
    ).fetchone()
    facts = (document.cid, document.title, document.language, document.year, document.size, embedder, chunks)
    return bool(row == facts)


def _remove(connection: sqlite3.Connection, corpus: str, source: str) -> None:
    values = (corpus, source)
    inside = "SELECT c.id FROM chunk c JOIN document d ON d.id = c.document WHERE d.corpus = ? AND d.source = ?"
    connection.execute(f"DELETE FROM words WHERE rowid IN ({inside})", values)
    connection.execute("DELETE FROM document WHERE corpus = ? AND source = ?", values)


def _insert(
    connection: sqlite3.Connection,
    document: NewDocument,
    chunks: Sequence[DocumentChunk],
    vectors: Sequence[Sequence[float]],
    embedder: str | None,
) -> None:
    connection.execute(
        "INSERT INTO corpus VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET generation = generation + 1",
        (document.corpus,),
    )
    row = connection.execute(
        "INSERT INTO document (corpus, source, cid, title, language, year, size, embedder) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*document, embedder),
    ).lastrowid
    title = fold_text(document.title)
    packed: list[bytes | None] = [array("f", vector).tobytes() for vector in vectors]
    for number, (chunk, vector) in enumerate(zip(chunks, packed or [None] * len(chunks), strict=True), 1):
        id = connection.execute(
            "INSERT INTO chunk (document, number, page, text, vector) VALUES (?, ?, ?, ?, ?)",
            (row, number, chunk.page, chunk.text, vector),
        ).lastrowid
        words = (id, fold_text(chunk.text), title)
        connection.execute("INSERT INTO words (rowid, text, title) VALUES (?, ?, ?)", words)


def _corpora(connection: sqlite3.Connection) -> list[CorpusSummary]:
    rows = connection.execute(
        "SELECT d.corpus, d.language, d.size, (SELECT count(*) FROM chunk WHERE document = d.id) FROM document d "
        "ORDER BY d.corpus"
    ).fetchall()
    found = []
    for name, group in groupby(rows, itemgetter(0)):
        mine = list(group)
        spoken: Counter[str] = Counter()
        for _, language, _, chunks in mine:
            spoken.update({} if language is None else {language: chunks})
        majority = spoken.most_common(1)[0][0] if spoken else None
        found.append(CorpusSummary(name, len(mine), sum(row[3] for row in mine), sum(row[2] for row in mine), majority))
    return found
