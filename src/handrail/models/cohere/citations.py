"""Citations of Cohere's as sources of the reply's text.

The service counts characters within one block of content. A reply's text is all blocks of text
joined, so each block remembers where it begins. What the service says is cited is
compared with the text that is there: a place that does not fit is looked for, or left open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from handrail.core.messages import Citation
from handrail.models.shared_decoding import text_at

_QUOTED = 500
"""Characters of a source that are kept. A result of a tool may be long, and the conversation has it already."""


class CitedText:
    """The text of a reply by its blocks, as far as it has come."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[str]] = {}
        self._starts: dict[int, int] = {}
        self._length = 0

    def add(self, index: int, text: str) -> None:
        self._starts.setdefault(index, self._length)
        self._blocks.setdefault(index, []).append(text)
        self._length += len(text)

    def citations(self, cited: Mapping[str, Any]) -> Iterator[Citation]:
        """One citation for each source that is named."""
        start, end = self._place(cited)
        sources = cited.get("sources")
        for source in sources if isinstance(sources, list) and sources else [{}]:
            if isinstance(source, Mapping):
                yield _citation(source, start, end)

    def _place(self, cited: Mapping[str, Any]) -> tuple[int | None, int | None]:
        if cited.get("type") not in (None, "TEXT_CONTENT"):
            return None, None  # within a plan or a thought, which is no part of the text
        index = cited.get("content_index")
        if not isinstance(index, int) or index not in self._blocks:
            index = next(iter(self._blocks), None)
        if index is None:
            return None, None
        block, words = "".join(self._blocks[index]), cited.get("text")
        start, end = cited.get("start"), cited.get("end")
        fits = isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= len(block)
        if isinstance(words, str) and words and not (fits and block[start:end] == words):
            if block.count(words) != 1:
                return None, None
            start = block.index(words)
            end, fits = start + len(words), True
        if not fits or start is None or end is None:
            return None, None
        return self._starts[index] + start, self._starts[index] + end


def _citation(source: Mapping[str, Any], start: int | None, end: int | None) -> Citation:
    content = source.get("document") if source.get("type") == "document" else source.get("tool_output")
    facts: Mapping[str, Any] = content if isinstance(content, Mapping) else {}
    return Citation(
        url=text_at(facts, "url"),
        title=text_at(facts, "title") or text_at(source, "id"),
        quote=_quote(facts),
        start=start,
        end=end,
    )


def _quote(facts: Mapping[str, Any]) -> str:
    words = text_at(facts, "text", "snippet", "output")
    if not words and facts:
        words = msgspec.json.encode(facts).decode()
    return words if len(words) <= _QUOTED else f"{words[:_QUOTED]}…"
