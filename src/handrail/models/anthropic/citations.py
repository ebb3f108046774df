"""Citations of the Messages API. A block of text has them, and each is about all of its text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from handrail.core.events import CitationAdded
from handrail.core.messages import Citation
from handrail.models.shared_decoding import text_at

_TAKEN = {
    "char_location": ("cited_text", "document_index", "document_title", "start_char_index", "end_char_index"),
    "page_location": ("cited_text", "document_index", "document_title", "start_page_number", "end_page_number"),
    "content_block_location": (
        "cited_text",
        "document_index",
        "document_title",
        "start_block_index",
        "end_block_index",
    ),
    "web_search_result_location": ("cited_text", "encrypted_index", "title", "url"),
    "search_result_location": (
        *("cited_text", "search_result_index", "source"),
        *("start_block_index", "end_block_index", "title"),
    ),
}
"""The fields that the service takes back, by kind. It writes others that it refuses (`file_id`)."""


def citations_added(raw: list[Any], start: int, end: int) -> Iterator[CitationAdded]:
    """The citations of a block of text that has these characters of the reply."""
    for each in raw:
        if not isinstance(each, dict):
            continue
        yield CitationAdded(
            citation=Citation(
                url=text_at(each, "url", "source"),
                title=text_at(each, "title", "document_title"),
                file=text_at(each, "file_id"),
                quote=text_at(each, "cited_text"),
                start=start,
                end=end,
            )
        )


def citations_to_send(raw: list[Any]) -> list[Any]:
    """The citations as the service takes them."""
    return list(map(_taken, raw))


def _taken(citation: Any) -> Any:
    fields = _TAKEN.get(str(citation.get("type"))) if isinstance(citation, dict) else None
    return citation if fields is None else {"type": citation["type"], **{key: citation.get(key) for key in fields}}
