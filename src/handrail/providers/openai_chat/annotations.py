"""Annotations of OpenAI's wires as citations: the pages and files that a text names as its sources."""

from __future__ import annotations

from typing import Any

from handrail.core.messages import Citation


def citation_of(annotation: Any, base: int = 0) -> Citation | None:
    """The citation that an annotation is, of a text that begins at this character of the reply; None if it is none.

    Chat Completions puts the fields under the name of the kind, Responses beside it.
    """
    if not isinstance(annotation, dict):
        return None
    kind = annotation.get("type")
    if isinstance(kind, str) and isinstance(inner := annotation.get(kind), dict):
        annotation = inner
    found = Citation(
        url=_text(annotation, "url"),
        title=_text(annotation, "title") or _text(annotation, "filename"),
        file="/".join(filter(None, (_text(annotation, "container_id"), _text(annotation, "file_id")))),
        quote=_text(annotation, "content") or _text(annotation, "quote"),
    )
    return None if found == Citation() else _placed(found, annotation, base)


def _placed(citation: Citation, annotation: dict[str, Any], base: int) -> Citation:
    """With the characters that it is about. A file is often named at one place, not for a range."""
    first, last = annotation.get("start_index"), annotation.get("end_index")
    if first is None and last is None:
        first = last = annotation.get("index")
    if not isinstance(first, int) or not isinstance(last, int) or not 0 <= first <= last:
        return citation
    return Citation(
        url=citation.url,
        title=citation.title,
        file=citation.file,
        quote=citation.quote,
        start=base + first,
        end=base + last,
    )


def _text(values: dict[str, Any], key: str) -> str:
    found = values.get(key)
    return found if isinstance(found, str) else ""
