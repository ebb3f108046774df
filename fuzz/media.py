"""What people put into a node: documents, questions about them, recordings, pictures.

The laws: it is read or refused in words; no word of a document is lost on the way into chunks, none of which is too
long; and no question is an expression of the index's own language.
"""

from __future__ import annotations

import asyncio
import io
import sqlite3
import wave
from functools import cache

from hypothesis import strategies as st
from PIL import Image

from fuzz.law import Target, outcome
from fuzz.mutate import cuts, data, pieces_of, texts
from handrail.core.errors import BusError
from handrail.library.document_worker import HtmlText
from handrail.library.documents import HTML, MARKDOWN, PDF, TEXT, ExtractedDocument, ReadLimits, read_document
from handrail.node.services.img.ocr import open_picture
from handrail.node.services.rag.chunks import split_into_chunks
from handrail.node.services.rag.index import match_expression
from handrail.node.services.stt.recording import PcmRecording, read_recording
from tests.node.services.pdf_documents import locked, pdf

PAGE = """<!doctype html><html><head><title>Rain &amp; more</title><style>p {}</style></head><body>
<h1>Water</h1><p>Keep <b>two</b> litres.<br>A day.</p><script>alert("no")</script><ul><li>one<li>two</ul>
<svg><title>no</title><text>drawn</text></svg><!-- not this --><![CDATA[x]]></body></html>"""
NOTES = "# Water\n\nKeep two litres. A day! Really? Yes.\n\n## Food\n\n" + "A long sentence without an end " * 9
SIZE = 40
_QUICK = ReadLimits(pages=5, characters=4_000, seconds=5)

# ── documents ────────────────────────────────────────────────────────────────────────────


def _html(value: tuple[str, list[int]]) -> None:
    page, places = value
    read = HtmlText()
    for piece in pieces_of(page, places):
        read.feed(piece)
    read.close()
    assert "\r" not in read.title and "\n" not in read.title
    _cut(read.text)


def _cut(text: str) -> None:
    found = list(split_into_chunks([text], paged=False, size=SIZE, overlap=8))
    assert all(0 < len(chunk.text) <= SIZE for chunk in found), "a chunk is of the size that it may have"
    rest = iter("".join(chunk.text for chunk in found).replace(" ", "").replace("\n", ""))
    lost = [letter for letter in "".join(text.split()) if letter not in rest]
    assert not lost, "nothing but white space is lost"


def _document(value: tuple[bytes, str]) -> None:
    body, kind = value
    found = outcome(lambda: asyncio.run(read_document(body, kind, _QUICK)), BusError)
    if isinstance(found, ExtractedDocument):
        assert sum(map(len, found.pages)) <= _QUICK.characters
        "".join(found.pages).encode(errors="surrogatepass")


@cache
def _pdfs() -> list[bytes]:
    plain = pdf([["Keep two litres."], ["A day."]], title="Water", year=2024)
    return [plain, locked(plain, "secret")]


# ── questions ────────────────────────────────────────────────────────────────────────────


@cache
def _index() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'unicode61 remove_diacritics 2')")
    connection.execute("INSERT INTO words VALUES ('Keep two litres of water')")
    return connection


def _question(text: str) -> None:
    if expression := match_expression(text):
        _index().execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,)).fetchall()


# ── recordings and pictures ──────────────────────────────────────────────────────────────


def _wav(channels: int, width: int) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(16_000)
        file.writeframes(bytes(range(48)))
    return made.getvalue()


def _sound(body: bytes) -> None:
    found = outcome(lambda: read_recording(body), BusError)
    if isinstance(found, PcmRecording):
        assert len(found.samples) % 2 == 0, "a sample has two bytes"
        assert found.seconds >= 0


def _drawn(kind: str) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (9, 5), "red").save(made, kind)
    return made.getvalue()


def _picture(body: bytes) -> None:
    image = outcome(lambda: open_picture(body), BusError)
    if not isinstance(image, tuple):
        assert image.mode == "RGB" and min(image.size) > 0


TARGETS = (
    Target("html", st.tuples(texts([PAGE], ("<svg>", "</", "<!--", "&#", "&#x110000;", "<title>")), cuts(400)), _html),
    Target("chunks", texts([NOTES, PAGE], ("\n# ", ". ", "x" * 90)), _cut),
    Target(
        "document",
        st.tuples(data([NOTES.encode(), PAGE.encode()[:80]]), st.sampled_from((TEXT, MARKDOWN, "text/css", "x"))),
        _document,
    ),
    Target(
        "document-read",
        st.tuples(data([PAGE.encode()], (b"\xff\xfe",)), st.just(HTML))
        | st.deferred(lambda: st.tuples(data(_pdfs(), (b"endobj", b"/Kids [2 0 R]", b"9" * 40)), st.just(PDF))),
        _document,
        cost=20,
    ),
    Target(
        "question",
        texts(["two litres", 'a OR "b" NEAR(c d)', "wörter*", "-x +y ^z {a}: b"], ("_", "*", "ß", "İ")),
        _question,
    ),
    Target("recording", data([_wav(1, 2), _wav(2, 2), _wav(1, 1)], (b"LIST", b"fmt ", b"data")), _sound),
    Target(
        "picture",
        data([_drawn(kind) for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP")], (b"IHDR", b"%!PS-Adobe")),
        _picture,
    ),
)
