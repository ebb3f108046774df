"""The texts that are held for a run, by name, and what a cell may ask of them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.child_process import ask_program
from handrail.core.errors import BusError
from handrail.rlm.contexts.indexed_text import IndexedText, index_text
from handrail.rlm.contexts.scan import ContextFileChanged
from handrail.rlm.contexts.text_storage import SpilledText, Stored, TextPile, as_utf8, encode_utf8, raw_pieces
from handrail.sandbox.port import JSON, HostError

SECONDS = 30.0
"""A search may take."""
_PROGRAM = Path(__file__).with_name("scan.py")
MOST = 4_000_000
"""Characters that cross at once."""
MOST_HITS = 1_000
MOST_AROUND = 2_000
MOST_PDF = 256 * 2**20
"""Bytes."""
PAGE_BREAK = "\n\f\n"
MOST_WILDCARDS = 1_000
"""Characters: they are compiled here, and not where it could be ended."""
MOST_TEXT = 100_000
"""Characters of a pattern, or of a text to count."""


class OpenTextRequest(Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class ReadTextRequest(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    start: int
    length: int


class ReadLinesRequest(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    first: int
    count: int


class CountTextRequest(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    text: str


class SearchTextsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    name: str | None
    """None: all whose names fit `names`."""
    pattern: str
    limit: int
    around: int
    start: int
    names: str = "*"


class TextLibrary:
    """Answers a cell. What it is asked comes from code that nobody vouches for. Belongs to one event loop."""

    def __init__(self, stored: dict[str, Stored], *, seconds: float = SECONDS) -> None:
        self._stored = stored
        self._seconds = seconds
        self._texts: dict[str, IndexedText] = {}
        self._converted: dict[str, SpilledText] = {}
        self._pile = TextPile()
        self._one = asyncio.Lock()
        """Around reading a file for the first time, so that it is done once."""
        self._searches = asyncio.Semaphore(2)
        self._answers: dict[str, tuple[type[Struct], Callable[[Any], Awaitable[JSON]]]] = {
            "open": (OpenTextRequest, self._open),
            "read": (ReadTextRequest, self._read),
            "lines": (ReadLinesRequest, self._lines),
            "count": (CountTextRequest, self._count),
            "search": (SearchTextsRequest, self._search),
        }

    async def answer(self, what: str, value: JSON) -> JSON:
        """Answer a cell. A `HostError` has words for the one who wrote the code."""
        if what not in self._answers:
            raise HostError(f"a context has no {what!r}; it has {', '.join(self._answers)}", "NameError")
        shape, method = self._answers[what]
        try:
            asked = msgspec.convert(value, shape)
        except msgspec.ValidationError as error:
            raise HostError(f"{what}: {error}", "TypeError") from error
        try:
            return await method(asked)
        except ContextFileChanged as error:
            name = getattr(asked, "name", None) or "a file"
            raise HostError(f"{name!r} changed since it was listed: {error}; begin a new run", "OSError") from error
        except OSError as error:
            raise HostError(f"{what}: {error.strerror or error}; try again", "OSError") from error

    async def text(self, name: str) -> IndexedText:
        """The text of this name. `HostError` if it cannot be read, `ContextFileChanged` if it is another by now."""
        async with self._one:
            if name not in self._texts:
                stored = await self._as_utf8(name)
                self._texts[name] = await asyncio.to_thread(index_text, stored)
            return self._texts[name]

    def digest(self) -> str:
        """Changes when a text does; of a file its name, its size and its time are looked at, not what it says."""
        parts = [[name, stored.fingerprint()] for name, stored in sorted(self._stored.items())]
        return sha256(msgspec.json.encode(parts)).hexdigest()

    def close(self) -> None:
        for stored in (*self._stored.values(), self._pile):
            stored.close()

    async def _open(self, asked: OpenTextRequest) -> JSON:
        text = await self.text(asked.name)
        return {"size": text.size, "lines": text.breaks + 1}

    async def _read(self, asked: ReadTextRequest) -> JSON:
        text = await self.text(asked.name)
        _bounded(min(asked.start + asked.length, text.size) - max(asked.start, 0))
        return await asyncio.to_thread(text.read, asked.start, asked.length)

    async def _lines(self, asked: ReadLinesRequest) -> JSON:
        text = await self.text(asked.name)
        first, end = max(asked.first, 0), min(asked.first + asked.count, text.breaks + 1)
        if first < end:
            start, stop = await asyncio.to_thread(text.span, first, end)
            _bounded(stop - start)
        return await asyncio.to_thread(text.lines, asked.first, asked.count)

    async def _count(self, asked: CountTextRequest) -> JSON:
        if not 0 < len(asked.text) <= MOST_TEXT:
            raise HostError(f"count: give a text of 1 to {MOST_TEXT:,} characters", "ValueError")
        return await self._scanned({"text": asked.text}, [asked.name])

    async def _search(self, asked: SearchTextsRequest) -> JSON:
        if not 0 < len(asked.pattern) <= MOST_TEXT:
            raise HostError(f"search: give a pattern of 1 to {MOST_TEXT:,} characters", "ValueError")
        if not (1 <= asked.limit <= MOST_HITS and 0 <= asked.around <= MOST_AROUND):
            raise HostError(
                f"search: limit is 1 to {MOST_HITS:,} and around 0 to {MOST_AROUND:,}; "
                "begin the next search with start= where the last one ended",
                "ValueError",
            )
        if len(asked.names) > MOST_WILDCARDS:
            raise HostError(f"search: give names= of at most {MOST_WILDCARDS:,} characters", "ValueError")
        how = {"pattern": asked.pattern, "limit": asked.limit, "around": asked.around, "start": asked.start}
        names = [asked.name] if asked.name is not None else await asyncio.to_thread(self._named, asked.names)
        return await self._scanned({**how, "named": asked.name is None}, names)

    async def _scanned(self, asked: dict[str, Any], names: list[str]) -> JSON:
        async with self._searches:
            for name in names:
                if name not in self._stored or self._stored[name].form != "utf-8":
                    await self._prepare(name, asked.get("named", False))
            return await run_scan(asked, self._for_scan(names), self._seconds)

    async def _prepare(self, name: str, among_others: bool) -> None:
        """Prepares the texts. One of many that cannot be read is skipped."""
        try:
            async with self._one:
                await self._as_utf8(name)
        except HostError:
            if not among_others:
                raise

    def _named(self, pattern: str) -> list[str]:
        return [name for name in self._stored if pattern == "*" or fnmatchcase(name, pattern)]

    def _for_scan(self, names: list[str]) -> Iterator[dict[str, Any]]:
        """The place where the searching process finds a text."""
        for name in names:
            stored = self._converted.get(name, self._stored[name])
            if stored.form == "utf-8":
                yield {"name": name, **stored.for_scan()}

    async def _as_utf8(self, name: str) -> Stored:
        """The file as UTF-8: itself, or what was made of it."""
        if name not in self._stored:
            raise HostError(f"there is no file {name!r}; `files` lists them all", "FileNotFoundError")
        stored = self._stored[name]
        if stored.form == "utf-8":
            return stored
        if name not in self._converted:
            text = await _from_pdf(name, stored) if stored.form == "pdf" else as_utf8(stored)
            self._converted[name] = await asyncio.to_thread(self._pile.add, text)
        return self._converted[name]


async def _from_pdf(name: str, stored: Stored) -> Iterator[bytes]:
    from handrail.library.documents import PDF, read_document

    which = f"{name!r}: " if name else ""
    if stored.end - stored.start > MOST_PDF:
        raise HostError(f"{which}a PDF of more than {MOST_PDF:,} bytes is not read", "OSError")
    data = await asyncio.to_thread(lambda: b"".join(raw_pieces(stored)))
    try:
        document = await read_document(data, PDF)
    except BusError as error:
        raise HostError(f"{which}{error.message}", "OSError") from error
    return encode_utf8(PAGE_BREAK.join(document.pages))


def _bounded(length: int) -> None:
    if length > MOST:
        raise HostError(f"{length:,} characters at once are too many; read at most {MOST:,}", "ValueError")


async def run_scan(asked: dict[str, Any], texts: Iterable[dict[str, Any]], seconds: float = SECONDS) -> Any:
    """What the program answers.

    Raises:
        HostError: The pattern is none, or takes too long, or a file changed.
    """
    request, files = await asyncio.to_thread(_written, asked, texts)
    command = (sys.executable, "-I", "-S", str(_PROGRAM))
    try:
        _, output = await ask_program(command, request, seconds, pass_fds=files)
    except TimeoutError:
        slow = f"looking took more than {seconds:g} s; take a simpler pattern, or look through less"
        raise HostError(slow, "TimeoutError") from None
    try:
        said = json.loads(output)
    except ValueError:
        raise HostError("the search broke off; take a simpler pattern") from None
    if "error" in said:
        raise HostError(said["error"], said["kind"])
    return said["value"]


def _written(asked: dict[str, Any], texts: Iterable[dict[str, Any]]) -> tuple[bytes, tuple[int, ...]]:
    """The request, and the descriptors that it names."""
    listed = list(texts)
    return json.dumps({**asked, "texts": listed}).encode(), tuple({each["fd"] for each in listed if "fd" in each})
