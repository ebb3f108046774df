"""The sources of Gemini's text. It counts bytes of the text's UTF-8; a citation counts characters."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from msgspec.structs import replace

from handrail.core.events import CitationAdded, ModelEvent, ServiceCallMade
from handrail.core.messages import Citation, ServiceCall
from handrail.models.shared_decoding import text_at

SAID_OF_SOURCES = frozenset({"groundingMetadata", "citationMetadata", "urlContextMetadata"})
"""The fields of a candidate that `Grounding` reads."""
_SOURCES = ("web", "retrievedContext", "maps", "image")


class Grounding:
    """Collects the sources of one reply. They come with the last pieces of a stream, and are about the whole text."""

    def __init__(self) -> None:
        self._grounding: dict[str, Any] = {}
        self._citations: list[Any] = []
        self._pages: list[Any] = []

    def take(self, candidate: Mapping[str, Any]) -> None:
        match candidate.get("groundingMetadata"):
            case dict(found):
                self._grounding |= {key: value for key, value in found.items() if value}
        match candidate.get("citationMetadata"):
            case {"citationSources": list(sources)} | {"citations": list(sources)}:
                self._citations = sources
        match candidate.get("urlContextMetadata"):
            case {"urlMetadata": list(pages)}:
                self._pages = pages

    def end(self, parts: Sequence[str]) -> Iterator[ModelEvent]:
        """The calls that the service made for the text, and the sources of it. `parts` are its pieces as they came."""
        if not (self._grounding or self._citations or self._pages):
            return
        chunks = list(map(_source, _list(self._grounding.get("groundingChunks"))))
        if queries := self._grounding.get("webSearchQueries"):
            found = [{"url": each.url, "title": each.title} for each in chunks]
            call = ServiceCall(id="google_search", name="google_search", arguments={"queries": queries}, result=found)
            yield ServiceCallMade(call=call)
        if self._pages:
            yield ServiceCallMade(call=ServiceCall(id="url_context", name="url_context", result=self._pages))
        text = _ByteIndexedText(parts)
        yield from self._supported(chunks, text)
        for source in self._citations:
            if isinstance(source, dict):
                start, end = text.range(source)
                citation = Citation(url=text_at(source, "uri"), title=text_at(source, "title"), start=start, end=end)
                yield CitationAdded(citation=citation)

    def _supported(self, chunks: list[Citation], text: _ByteIndexedText) -> Iterator[ModelEvent]:
        named: set[int] = set()
        for support in _list(self._grounding.get("groundingSupports")):
            match support:
                case {"segment": dict(segment), "groundingChunkIndices": list(numbers)}:
                    start, end = text.range(segment)
                    for number in numbers:
                        if isinstance(number, int) and 0 <= number < len(chunks):
                            named.add(number)
                            yield CitationAdded(citation=replace(chunks[number], start=start, end=end))
        # Sources of no part in particular.
        yield from (CitationAdded(citation=chunk) for at, chunk in enumerate(chunks) if at not in named)


class _ByteIndexedText:
    """The reply's text, to find characters in it by bytes."""

    def __init__(self, parts: Sequence[str]) -> None:
        self._parts = parts
        self._whole = "".join(parts)
        self._ends = list(accumulate(len(char.encode("utf-8", "surrogatepass")) for char in self._whole))
        """The number of bytes up to the end of each character."""

    def range(self, segment: Mapping[str, Any]) -> tuple[int | None, int | None]:
        """The characters of a segment; neither is known if its words are not there."""
        first, last = segment.get("startIndex") or 0, segment.get("endIndex")
        if not isinstance(first, int) or not isinstance(last, int) or not 0 <= first <= last:
            return None, None
        words = segment.get("text")
        for base in self._bases(segment.get("partIndex")):
            start, end = self._char(base + first), self._char(base + last)
            if not isinstance(words, str) or self._whole[start:end] == words:
                return start, end
        at = self._whole.find(words) if isinstance(words, str) and words else -1
        return (None, None) if at < 0 else (at, at + len(str(words)))

    def _bases(self, part: Any) -> Iterator[int]:
        """Bytes before the text that the indexes count in: all of it in a stream, else one of its parts."""
        if isinstance(part, int) and 0 < part < len(self._parts):
            yield len("".join(self._parts[:part]).encode("utf-8", "surrogatepass"))
        yield 0

    def _char(self, byte: int) -> int:
        return 0 if byte <= 0 else min(bisect_left(self._ends, byte) + 1, len(self._ends))


def _source(chunk: Any) -> Citation:
    given: dict[str, Any] = chunk if isinstance(chunk, dict) else {}
    found: dict[str, Any] = next((given[key] for key in _SOURCES if isinstance(given.get(key), dict)), {})
    return Citation(
        url=text_at(found, "uri", "sourceUri"),
        title=text_at(found, "title"),
        file=text_at(found, "fileSearchStore"),
        quote=text_at(found, "text"),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
