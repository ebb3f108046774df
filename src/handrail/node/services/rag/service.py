"""`rag.query`, `rag.list_corpora` and `rag.ingest` over an index. Corpora belong to the community, not to a caller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from handrail.core.errors import BusError
from handrail.library.documents import MEDIA_TYPES, PDF, ExtractedDocument, ReadLimits, read_document
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Handler
from handrail.node.bus.request import RouteRequest
from handrail.node.services import schema_parts as shape
from handrail.node.services.blobs import BlobStore, cid_of
from handrail.node.services.languages import guess_language
from handrail.node.services.rag.chunks import DocumentChunk, split_into_chunks
from handrail.node.services.rag.index import ChunkFilter, DocumentIndex, FoundChunk, NewDocument

MOST_RESULTS = 20
_TELLING = 10
"""The first chunks, which tell the language of a document."""

_NAME = {"type": "string", "pattern": "^[a-z0-9][a-z0-9_.-]{0,99}$", "description": "The name of a corpus."}
_PARAMS = shape.full_object({"corpus": _NAME})
_YEAR = shape.whole(0, 9999)
_CHUNK = shape.closed_object(
    {
        "rank": {"type": "integer", "minimum": 1},
        "score": {"type": "number", "description": "1 for the first in every ranking."},
        "text": shape.TEXT,
        "metadata": shape.full_object(
            {
                "doc_cid": shape.CID,
                "doc_title": shape.TEXT,
                "page": {"type": ["integer", "null"], "description": "null if the document has no pages."},
                "chunk_id": shape.TEXT,
            }
        ),
    },
    ["rank", "score", "metadata"],
)

QUERY = CapabilityDescriptor(
    name="rag.query",
    max_concurrent=64,
    description="Search a corpus: the passages that answer a question best, with their sources.",
    request_schema=shape.request_schema_of(
        shape.closed_object(
            {
                "query": shape.text(1, 10_000),
                "k": shape.whole(1, MOST_RESULTS, default=5),
                "filter": shape.closed_object({"language": shape.LANGUAGE, "min_year": _YEAR}),
                "include_text": {"type": "boolean", "default": True},
            },
            ["query"],
        ),
        _PARAMS,
    ),
    response_schema=shape.full_object({"chunks": shape.array(_CHUNK)}),
    untrusted=True,
)
_CORPUS = {"name": _NAME, "docs": shape.COUNT, "chunks": shape.COUNT, "size_bytes": shape.COUNT}
_CORPUS |= {"language_majority": {"type": ["string", "null"]}}
LIST = CapabilityDescriptor(
    name="rag.list_corpora",
    max_concurrent=64,
    description="List the corpora, with the size and the main language of each.",
    request_schema=shape.request_schema_of(),
    response_schema=shape.full_object({"corpora": shape.array(shape.full_object(_CORPUS))}),
)
INGEST = CapabilityDescriptor(
    name="rag.ingest",
    description="Add a document to a corpus, by its blob or as text. Adding it again changes nothing.",
    request_schema=shape.request_schema_of(
        shape.closed_object(
            {
                "doc_cid": shape.CID,
                "text": shape.text(1, 5_000_000),
                "media_type": shape.choice(
                    *(kind for kind in MEDIA_TYPES if kind != PDF),
                    description="The type of `text`; a blob has its own.",
                ),
                "doc_id": shape.text(1, 500, "A stable id, such as its path: a new version replaces the old one."),
                "title": shape.text(1, 500),
                "language": {**shape.LANGUAGE, "description": "The language of the document; detected if omitted."},
                "metadata": {"type": "object", "properties": {"author": shape.TEXT, "year": _YEAR}},
            },
            oneOf=[{"required": ["doc_cid"]}, {"required": ["text"]}],
        ),
        _PARAMS,
    ),
    response_schema=shape.full_object(
        {
            "doc_cid": shape.CID,
            "chunks_indexed": shape.COUNT,
            "tokens_indexed": {**shape.COUNT, "description": "The number of words, separated by white space."},
        }
    ),
    trust_required="trusted",
    timeout_seconds=120,
    max_concurrent=4,
    side_effects=True,
    idempotent=True,
)


class RagService:
    """Serves documents that can be asked. Without a blob store it takes only inline texts; without an embedder it
    searches by words alone."""

    def __init__(
        self, index: DocumentIndex, *, blobs: BlobStore | None = None, limits: ReadLimits = ReadLimits()
    ) -> None:
        self._index = index
        self._blobs = blobs
        self._limits = limits

    def capabilities(self) -> Iterator[tuple[CapabilityDescriptor, Handler]]:
        yield QUERY, self.query
        yield LIST, self.list_corpora
        yield INGEST, self.ingest

    async def query(self, request: RouteRequest) -> dict[str, Any]:
        asked, corpus = request.input, request.params["corpus"]
        only = asked.get("filter", {})
        language = only.get("language")
        found = await self._index.query(
            corpus,
            asked["query"],
            int(asked.get("k", 5)),
            ChunkFilter(language and language.lower(), only.get("min_year")),
        )
        if found is None:
            there = [each.name for each in await self._index.corpora()]
            words = f"there is no corpus {corpus!r}; there are: {', '.join(there) or 'none'}"
            raise BusError("not_found", words, available=there)
        whole = asked.get("include_text", True)
        meaning = self._index.by_meaning
        return {
            "output": {"chunks": [_chunk_as_json(rank, each, whole) for rank, each in enumerate(found, 1)]},
            "meta": {
                "corpus": corpus,
                "search": "words" if meaning is None else "words and meaning",
                "embedding_model": meaning,
            },
        }

    async def list_corpora(self, request: RouteRequest) -> dict[str, Any]:
        shown = [
            {
                "name": each.name,
                "docs": each.docs,
                "chunks": each.chunks,
                "size_bytes": each.size,
                "language_majority": each.language,
            }
            for each in await self._index.corpora()
        ]
        return {"output": {"corpora": shown}}

    async def ingest(self, request: RouteRequest) -> dict[str, Any]:
        given = request.input
        media_type, data = await self._content(request)
        document = await read_document(data, media_type, self._limits)
        cut, words = await asyncio.to_thread(_cut, document)
        if not cut:
            raise BusError("bad_request", "the document has no text; run text recognition on a scan first")
        cid: str = given["doc_cid"] if "doc_cid" in given else await asyncio.to_thread(cid_of, data)
        language = given.get("language")
        facts = NewDocument(
            corpus=request.params["corpus"],
            source=given.get("doc_id", cid),
            cid=cid,
            title=given.get("title") or document.title or given.get("doc_id") or cid[:19],
            language=language.lower()
            if language
            else guess_language("\n".join(chunk.text for chunk in cut[:_TELLING])),
            year=given.get("metadata", {}).get("year", document.year),
            size=len(data),
        )
        vectors = await asyncio.to_thread(self._index.embedded, cut)
        changed = await self._index.add(facts, cut, vectors)
        return {
            "output": {"doc_cid": cid, "chunks_indexed": len(cut), "tokens_indexed": words},
            "meta": {"corpus": facts.corpus, "language": facts.language, "changed": changed},
        }

    async def _content(self, request: RouteRequest) -> tuple[str, bytes]:
        given = request.input
        if "text" in given:
            return given.get("media_type", "text/plain"), given["text"].encode("utf-8", "replace")
        if self._blobs is None:
            raise BusError("not_implemented", "this node keeps no blobs; give the document as text")
        return await self._blobs.read(given["doc_cid"], request.caller.id)


def _cut(document: ExtractedDocument) -> tuple[list[DocumentChunk], int]:
    """Its chunks, and how many words they have."""
    cut = list(split_into_chunks(document.pages, paged=document.paged))
    return cut, sum(len(chunk.text.split()) for chunk in cut)


def _chunk_as_json(rank: int, found: FoundChunk, whole: bool) -> dict[str, Any]:
    where = {
        "doc_cid": found.cid,
        "doc_title": found.title,
        "page": found.page,
        "chunk_id": f"ch_{found.number:03d}",
    }
    text = {"text": found.text} if whole else {}
    return {"rank": rank, "score": round(found.score, 6), **text, "metadata": where}
