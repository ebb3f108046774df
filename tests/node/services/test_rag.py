"""Corpora of real documents, asked in German and English, by words and by meaning."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.ports import Embedder
from handrail.library.documents import ReadLimits
from handrail.node.capability_bus import CapabilityBus
from handrail.node.services.blobs import BlobStore
from handrail.node.services.rag.index import DocumentIndex
from handrail.node.services.rag.service import RagService
from handrail.sessions.store.embedding import WordLlamaEmbedder
from handrail.testing.embedding import WordEmbedder
from tests.examples import examples
from tests.node.services.pdf_documents import bomb, locked, pdf
from tests.node.services.service_calls import ANNA, TESS, ask, refusal

DATA = Path(__file__).parent / "data" / "corpus"
TYPES = {".md": "text/markdown", ".txt": "text/plain", ".html": "text/html"}
CORPUS = {"corpus": "niederrhein"}


class Library:
    def __init__(self, folder: Path, embedder: Embedder | None = None, limits: ReadLimits = ReadLimits()) -> None:
        self.blobs = BlobStore(folder / "blobs")
        self.index = DocumentIndex(folder / "rag.sqlite", embedder)
        self.bus = CapabilityBus()
        self.bus.register_service(RagService(self.index, blobs=self.blobs, limits=limits))

    async def ingest(self, data: bytes, media_type: str, **more: Any) -> dict[str, Any]:
        cid = await self.blobs.put(data, media_type, TESS.id)
        return await ask(self.bus, "rag.ingest", {"doc_cid": cid, **more}, CORPUS, who=TESS)

    async def ingest_all(self) -> None:
        for path in sorted(DATA.iterdir()):
            await self.ingest(path.read_bytes(), TYPES[path.suffix])

    async def ask(self, query: str, **more: Any) -> list[dict[str, Any]]:
        chunks: list[dict[str, Any]] = (await ask(self.bus, "rag.query", {"query": query, **more}, CORPUS))["chunks"]
        return chunks

    async def titles(self, query: str, **more: Any) -> list[str]:
        return [chunk["metadata"]["doc_title"] for chunk in await self.ask(query, **more)]

    async def refused(self, data: bytes, media_type: str) -> str:
        cid = await self.blobs.put(data, media_type, TESS.id)
        error = await refusal(self.bus, "rag.ingest", {"doc_cid": cid}, CORPUS, who=TESS)
        assert error.code == "bad_request"
        return error.message

    def close(self) -> None:
        self.index.close()
        self.blobs.close()


@pytest.fixture(scope="module")
def wordllama() -> Embedder:
    return WordLlamaEmbedder()


@pytest.fixture
async def library(tmp_path: Path) -> AsyncIterator[Library]:
    made = Library(tmp_path)
    async with made.bus:
        yield made
    made.close()


@pytest.fixture
async def semantic(tmp_path: Path, wordllama: Embedder) -> AsyncIterator[Library]:
    made = Library(tmp_path / "semantic", wordllama)
    async with made.bus:
        yield made
    made.close()


async def test_a_question_finds_its_passage_with_its_place(library: Library) -> None:
    await library.ingest_all()
    first, *_ = await library.ask("Wie reinige ich Regenwasser?")

    assert "drei Minuten" in first["text"]
    assert first["rank"] == 1
    assert first["score"] == 1.0
    assert first["metadata"] == {
        "doc_cid": first["metadata"]["doc_cid"],
        "doc_title": "Notfall-Trinkwasser",
        "page": None,
        "chunk_id": "ch_002",
    }
    assert first["metadata"]["doc_cid"].startswith("blake3:")


async def test_meaning_finds_what_no_word_of_the_question_says(library: Library, semantic: Library) -> None:
    await library.ingest_all()
    await semantic.ingest_all()
    question = "injury from fire"
    assert await library.ask(question) == []

    body = {"params": CORPUS, "input": {"query": question}}
    response = await semantic.bus.call("rag.query", (1, 0), body, caller=ANNA)
    assert [each["text"].splitlines()[0] for each in response["output"]["chunks"]] == ["First aid for burns"]
    assert response["meta"]["search"] == "words and meaning"
    assert response["meta"]["embedding_model"] == "WordLlamaEmbedder"


async def test_without_an_embedder_search_is_by_words_and_says_so(library: Library) -> None:
    await library.ingest_all()
    response = await library.bus.call("rag.query", (1, 0), {"params": CORPUS, "input": {"query": "Compost"}})

    assert response["meta"]["search"] == "words"
    assert response["meta"]["embedding_model"] is None
    assert response["output"]["chunks"][0]["metadata"]["doc_title"] == "The community garden: rules of the year"


async def test_the_corpora_are_listed_with_the_language_of_most_of_them(library: Library) -> None:
    await library.ingest_all()
    english = {"text": "The gate is open when it is light, and that is all there is to know."}
    await ask(library.bus, "rag.ingest", english, {"corpus": "english"}, who=TESS)

    first, second = (await ask(library.bus, "rag.list_corpora"))["corpora"]
    assert (first["name"], first["docs"], first["language_majority"]) == ("english", 1, "en")
    assert (second["name"], second["docs"], second["language_majority"]) == ("niederrhein", 4, "de")
    assert second["size_bytes"] == sum(path.stat().st_size for path in DATA.iterdir())
    assert second["chunks"] >= 6


async def test_a_page_of_the_web_is_read_as_a_person_sees_it(library: Library) -> None:
    await library.ingest((DATA / "community-garden.html").read_bytes(), "text/html")
    last, first = [each["text"] for each in await library.ask("chipper goggles garden")]

    assert first.startswith("# The community garden\nThe gate is open from seven in the morning until dusk. Whoever")
    assert last == (
        "## Tools & machines\nTool\nWho has it\nScythe\nHannes\nChipper\nAyşe\nThe chipper is used with goggles only."
    )
    assert not [
        word for word in ("kumquat", "persimmon", "marzipan", "quince", "nectarine", "<") if word in first + last
    ]


async def test_a_page_with_marks_that_no_browser_knows_is_read_all_the_same(library: Library) -> None:
    await library.ingest(b"<p>Keep two litres.</p><![DATA[ x ]]><![ <p>Every day.</p>", "text/html")

    assert [each["text"] for each in await library.ask("litres")] == ["Keep two litres.\nEvery day."]


async def test_a_pdf_is_found_by_its_page(library: Library) -> None:
    pages = [
        ["Seite eins handelt von Kerzen.", "Kerzen stehen auf einem Teller."],
        ["Seite zwei handelt von (Ölöfen).", "Öl brennt mit viel Ruß."],
    ]
    told = await library.ingest(pdf(pages, "Heizen im Notfall", 2019), "application/pdf")
    (chunk,) = await library.ask("Ölöfen")

    assert told["chunks_indexed"] == 2
    assert chunk["metadata"]["page"] == 2
    assert chunk["metadata"]["doc_title"] == "Heizen im Notfall"
    assert "(Ölöfen)" in chunk["text"]
    assert await library.titles("Öl", filter={"min_year": 2019}) == ["Heizen im Notfall"]
    assert await library.titles("Öl", filter={"min_year": 2020}) == []


async def test_pdfs_that_are_locked_broken_empty_or_bombs_are_refused(tmp_path: Path) -> None:
    limits = ReadLimits(pages=3, characters=2000, seconds=20, memory_bytes=400 << 20)
    library = Library(tmp_path, limits=limits)
    whole = pdf([["some words"]])

    assert "encrypted" in await library.refused(locked(whole, "canary"), "application/pdf")
    assert "damaged" in await library.refused(b"%PDF-1.4 and then nothing of the kind", "application/pdf")
    assert "damaged" in await library.refused(b"", "application/pdf")
    assert "no text" in await library.refused(pdf([[]]), "application/pdf")
    assert "4 pages" in await library.refused(pdf([["a"]] * 4), "application/pdf")
    assert "longer than 2000" in await library.refused(pdf([["word " * 500]]), "application/pdf")
    assert "LimitReachedError" in await library.refused(bomb(), "application/pdf")
    assert (await ask(library.bus, "rag.list_corpora"))["corpora"] == []
    library.close()


async def test_a_document_that_needs_too_much_memory_harms_nobody(tmp_path: Path) -> None:
    library = Library(tmp_path, limits=ReadLimits(memory_bytes=40 << 20))

    assert "memory" in await library.refused(pdf([["a"]]), "application/pdf")
    library.close()


async def test_a_document_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    library = Library(tmp_path, limits=ReadLimits(seconds=0.001))

    assert "0.001 s" in await library.refused(pdf([["a"]]), "application/pdf")
    assert "0.001 s" in await library.refused(b"<p>a", "text/html")
    library.close()


async def test_what_is_no_document_is_refused(library: Library) -> None:
    assert "not read" in await library.refused(b"PK\3\4", "application/zip")
    assert "not text" in await library.refused(b"\0\1\2\3", "text/plain")
    assert "no text" in await library.refused(b" \n ", "text/plain")
    both = {"text": "a", "doc_cid": "blake3:" + "0" * 64}
    assert (await refusal(library.bus, "rag.ingest", both, CORPUS, who=TESS)).code == "bad_request"
    assert (await refusal(library.bus, "rag.ingest", {}, CORPUS, who=TESS)).code == "bad_request"
    absent = {"doc_cid": "blake3:" + "0" * 64}
    assert (await refusal(library.bus, "rag.ingest", absent, CORPUS, who=TESS)).code == "not_found"


async def test_texts_in_old_encodings_are_read(library: Library) -> None:
    await library.ingest("Öltanks gehören geprüft.".encode("cp1252"), "text/plain")
    await library.ingest("Müllabfuhr am Freitag.".encode("utf-16"), "text/plain")

    assert [each["text"] for each in await library.ask("Öltanks")] == ["Öltanks gehören geprüft."]
    assert [each["text"] for each in await library.ask("Mullabfuhr")] == ["Müllabfuhr am Freitag."]


@pytest.mark.parametrize("query", ["Käse", "KÄSE", "kase", "Strasse", "Straße", "Offizier"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_words_are_found_however_their_letters_are_written(library: Library, query: str, form: Any) -> None:
    page = "Der O\ufb03zier aß Käse, mitten auf der Straße."
    await library.ingest(unicodedata.normalize("NFD" if form == "NFC" else "NFC", page).encode(), "text/plain")

    [found] = await library.ask(unicodedata.normalize(form, query))
    assert "O\ufb03zier" in found["text"]  # as it was written


async def test_the_same_document_again_changes_nothing(library: Library) -> None:
    await library.ingest_all()
    before = (await ask(library.bus, "rag.list_corpora"))["corpora"]
    found = await library.ask("Regenwasser", k=20)
    await library.ingest_all()

    assert (await ask(library.bus, "rag.list_corpora"))["corpora"] == before
    assert await library.ask("Regenwasser", k=20) == found


async def test_a_new_version_takes_the_place_of_the_old_one(semantic: Library) -> None:
    for text in ("The meeting is on Monday at noon.", "The meeting is on Friday at noon."):
        await ask(semantic.bus, "rag.ingest", {"text": text, "doc_id": "meeting.txt"}, CORPUS, who=TESS)
        assert [each["text"] for each in await semantic.ask("When is the meeting?")] == [text]
    assert await semantic.titles("meeting") == ["meeting.txt"]


async def test_only_the_trusted_fill_a_corpus_and_only_with_blobs_of_their_own(library: Library) -> None:
    assert (await refusal(library.bus, "rag.ingest", {"text": "spam"}, CORPUS, who=ANNA)).code == "unauthorized"
    cid = await library.blobs.put(b"Anna's diary", "text/plain", ANNA.id)
    assert (await refusal(library.bus, "rag.ingest", {"doc_cid": cid}, CORPUS, who=TESS)).code == "not_found"


async def test_filters_leave_out_other_languages_and_older_years(semantic: Library) -> None:
    for language, year in (("de", 1999), ("de", 2020), ("en", 2020)):
        given = {"text": f"Wasser water {language} {year}", "language": language, "title": f"{language} {year}"}
        await ask(semantic.bus, "rag.ingest", {**given, "metadata": {"year": year}}, CORPUS, who=TESS)
    await ask(semantic.bus, "rag.ingest", {"text": "water without a year", "title": "none"}, CORPUS, who=TESS)

    assert sorted(await semantic.titles("water")) == ["de 1999", "de 2020", "en 2020", "none"]
    assert sorted(await semantic.titles("water", filter={"language": "DE"})) == ["de 1999", "de 2020"]
    assert sorted(await semantic.titles("water", filter={"min_year": 2000})) == ["de 2020", "en 2020"]
    assert await semantic.titles("water", filter={"min_year": 2000, "language": "en"}) == ["en 2020"]


async def test_k_and_include_text_bound_the_answer(library: Library) -> None:
    for n in range(7):
        await ask(library.bus, "rag.ingest", {"text": f"Note {n} about candles."}, CORPUS, who=TESS)

    assert len(await library.ask("candles")) == 5
    assert len(await library.ask("candles", k=7)) == 7
    assert all("text" not in each for each in await library.ask("candles", include_text=False))
    assert (await refusal(library.bus, "rag.query", {"query": "a", "k": 21}, CORPUS)).code == "bad_request"


async def test_a_corpus_that_is_not_there_is_not_found_and_the_others_are_named(library: Library) -> None:
    await library.ingest_all()
    error = await refusal(library.bus, "rag.query", {"query": "a"}, {"corpus": "nothing"})

    assert (error.code, error.details["available"]) == ("not_found", ["niederrhein"])


async def test_documents_are_there_after_a_restart_and_for_other_processes(tmp_path: Path) -> None:
    first, second = Library(tmp_path, WordEmbedder()), Library(tmp_path, WordEmbedder())
    await first.ingest_all()
    assert len(await second.ask("Regenwasser")) == len(await first.ask("Regenwasser")) > 0
    await ask(first.bus, "rag.ingest", {"text": "Regenwasser Regenwasser"}, CORPUS, who=TESS)
    assert await second.ask("Regenwasser") == await first.ask("Regenwasser")
    first.close()
    second.close()
    third = Library(tmp_path, WordEmbedder())
    assert "Notfall-Trinkwasser" in await third.titles("Regenwasser")
    third.close()


async def test_what_another_process_adds_is_found_by_its_meaning_too(tmp_path: Path, wordllama: Embedder) -> None:
    first, second = Library(tmp_path, wordllama), Library(tmp_path, wordllama)
    await first.ingest((DATA / "stromausfall.txt").read_bytes(), "text/plain")
    assert await second.ask("injury from fire") == []
    await first.ingest((DATA / "first-aid-burns.txt").read_bytes(), "text/plain")

    assert [each["text"].splitlines()[0] for each in await second.ask("injury from fire")] == ["First aid for burns"]
    first.close()
    second.close()


async def test_two_who_ingest_at_once_both_succeed(tmp_path: Path) -> None:
    first, second = Library(tmp_path), Library(tmp_path)
    texts = [f"Document {n} is about lanterns." for n in range(12)]
    await asyncio.gather(
        *(
            ask((first, second)[n % 2].bus, "rag.ingest", {"text": text}, CORPUS, who=TESS)
            for n, text in enumerate(texts[:6])
        )
    )
    assert sorted(each["text"] for each in await first.ask("lanterns", k=20)) == texts[:6]
    first.close()
    second.close()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> DocumentIndex:
    return DocumentIndex(tmp_path_factory.mktemp("shelf") / "rag.sqlite", WordEmbedder())


HOSTILE = st.one_of(
    st.text(min_size=1, max_size=60),
    st.text('"*()^:-+{}[]ANDORNEAT _\0\ud800äß²', min_size=1, max_size=40),
)


@given(query=HOSTILE)
@settings(max_examples=examples(150), deadline=None)
def test_no_query_breaks_the_syntax_of_the_index(shelf: DocumentIndex, query: str) -> None:
    from handrail.node.services.rag.chunks import DocumentChunk
    from handrail.node.services.rag.index import ChunkFilter, NewDocument

    async def asked() -> None:
        document = NewDocument("c", "s", "blake3:0", "t", None, None, 1)
        chunks = [DocumentChunk("AND OR NEAR lantern", None)]
        await shelf.add(document, chunks, shelf.embedded(chunks))
        assert await shelf.query("c", query, 5, ChunkFilter()) is not None
        assert await shelf.query("c", f"{query} lantern", 5, ChunkFilter()) != []

    asyncio.run(asked())
