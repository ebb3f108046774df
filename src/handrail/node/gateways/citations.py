"""The sources of an answer, which is made of all that the model said in its replies, in each API's own form."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from handrail.core.messages import AssistantMessage, Citation, Message


def citations_in_answer(messages: Iterable[Message], text: str) -> tuple[Citation, ...]:
    """The citations of the replies, with their places in the answer's text. A reply that is no part of it has none."""
    found: list[Citation] = []
    at = 0
    for message in messages:
        if not isinstance(message, AssistantMessage) or not message.text or (start := text.find(message.text, at)) < 0:
            continue
        at = start + len(message.text)
        found += (_moved(citation, start) for citation in message.citations)
    return tuple(found)


def page_annotations(citations: Iterable[Citation]) -> list[dict[str, Any]]:
    """As a Chat message has them. They are about pages only."""
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "url": each.url,
                "title": each.title,
                "start_index": each.start or 0,
                "end_index": each.end or 0,
            },
        }
        for each in citations
        if each.url
    ]


def cited_text_blocks(text: str, citations: Iterable[Citation]) -> list[dict[str, Any]]:
    """The text as blocks of a Messages answer: a block for each part that has sources. Ranges that overlap are one."""
    blocks: list[dict[str, Any]] = []
    said = 0
    placed = sorted((each for each in citations if each.start is not None), key=_range)
    for (start, end), group in groupby(placed, key=_range):
        sources = list(map(source_location, group))
        if said < start < end and text[said:start]:
            blocks.append({"type": "text", "text": text[said:start]})
            said = start
        if words := text[said:end]:  # a place, without a range, is about the words before it
            blocks.append({"type": "text", "text": words, "citations": sources})
            said = end
        elif blocks:
            blocks[-1].setdefault("citations", []).extend(sources)
    if text[said:]:
        blocks.append({"type": "text", "text": text[said:]})
    return blocks


def source_location(citation: Citation) -> dict[str, Any]:
    """The form of a source in which nothing is sealed by Anthropic."""
    return {
        "type": "search_result_location",
        "source": citation.url or citation.file or citation.title,
        "title": citation.title or None,
        "cited_text": citation.quote,
        "search_result_index": 0,
        "start_block_index": 0,
        "end_block_index": 0,
    }


def _range(citation: Citation) -> tuple[int, int]:
    """Where it starts and ends; a place without an end is an empty range. A service may send anything."""
    start = max(citation.start or 0, 0)
    return start, start if citation.end is None else max(citation.end, start)


def _moved(citation: Citation, by: int) -> Citation:
    if citation.start is None:
        return citation
    return replace(citation, start=citation.start + by, end=None if citation.end is None else citation.end + by)
