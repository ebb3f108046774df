"""Files as pages of text: plain text, Markdown, HTML, PDF."""

from __future__ import annotations

import codecs
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from handrail.core.child_process import ask_program
from handrail.core.errors import BusError
from handrail.core.installation import install_command

TEXT, MARKDOWN, HTML, PDF = "text/plain", "text/markdown", "text/html", "application/pdf"
MEDIA_TYPES = (TEXT, MARKDOWN, HTML, PDF)

_WORKER = Path(__file__).with_name("document_worker.py")


class ReadLimits(NamedTuple):
    """The limits beyond which a document is refused."""

    pages: int = 2000
    characters: int = 5_000_000
    seconds: float = 30
    memory_bytes: int = 1 << 30


class ExtractedDocument(NamedTuple):
    pages: tuple[str, ...]
    paged: bool
    """Whether its pages are pages that a reader can turn to."""
    title: str | None = None
    year: int | None = None


async def read_document(data: bytes, media_type: str, limits: ReadLimits = ReadLimits()) -> ExtractedDocument:
    """Extracts the text of a document.

    Raises:
        BusError: It cannot be read, or is too much (`bad_request`), or nothing here reads it (`not_implemented`).
    """
    kind = media_type.partition(";")[0].strip().lower()
    if kind not in MEDIA_TYPES:
        raise BusError("bad_request", f"documents of type {kind[:100]!r} are not read; take one of {MEDIA_TYPES}")
    if kind == PDF:
        return _read(await _asked_worker("pdf", data, limits), paged=True)
    text = _decoded(data)
    if len(text) > limits.characters:
        raise BusError("bad_request", f"the document is longer than {limits.characters} characters")
    if kind == HTML:
        return _read(await _asked_worker("html", text.encode("utf-8", "replace"), limits), paged=False)
    heading = re.search(r"^# (.+)$", text[:2000], re.MULTILINE)
    return ExtractedDocument((text,), paged=False, title=heading and heading[1].strip(" #"))


def _decoded(data: bytes) -> str:
    if data.startswith(codecs.BOM_UTF8):
        return data.decode("utf-8-sig", "replace")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        raise BusError("bad_request", "the document is not text; say its media type")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _read(answer: dict[str, Any], *, paged: bool) -> ExtractedDocument:
    if answer.get("missing"):
        add = install_command("rag", shows_folder=False)
        raise BusError("not_implemented", f"this node reads no PDF; there: {add}")
    if "error" in answer:
        raise BusError("bad_request", f"the document cannot be read: {answer['error']}")
    return ExtractedDocument(tuple(answer["pages"]), paged, answer["title"], answer["year"])


async def _asked_worker(kind: str, data: bytes, limits: ReadLimits) -> dict[str, Any]:
    """What the worker process says of a document. It is killed when its time is over, or when nobody waits any more."""
    numbers = (limits.pages, limits.characters, limits.memory_bytes, int(limits.seconds) + 1)
    command = (sys.executable, "-I", str(_WORKER), kind, *map(str, numbers))
    try:
        _, output = await ask_program(command, data, limits.seconds)
    except TimeoutError:
        raise BusError("bad_request", f"the document cannot be read in {limits.seconds:g} s") from None
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError:
        return {"error": "it needs too much memory or time"}
    return answer
