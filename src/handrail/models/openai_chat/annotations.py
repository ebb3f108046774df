"""What OpenAI's wires have beside the text: the pages and files that it names as its sources, and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from handrail.core.events import CitationAdded, ModelEvent
from handrail.core.messages import Citation
from handrail.models.shared_decoding import picture_from_url, text_at

_FARTHEST = 2**31
"""Characters: no reply is so long, and a number that is larger yet could not be recorded."""


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
        url=text_at(annotation, "url"),
        title=text_at(annotation, "title", "filename"),
        file="/".join(filter(None, (text_at(annotation, "container_id"), text_at(annotation, "file_id")))),
        quote=text_at(annotation, "content", "quote"),
    )
    return None if found == Citation() else _placed(found, annotation, base)


def message_additions(annotations: Any, images: Any) -> Iterator[ModelEvent]:
    """What a Chat message has beside its text: sources of it, and pictures that the model made."""
    for annotation in annotations if isinstance(annotations, list) else ():
        if (citation := citation_of(annotation)) is not None:
            yield CitationAdded(citation=citation)
    for image in images if isinstance(images, list) else ():
        match image:
            case {"image_url": {"url": str(url)}}:
                yield picture_from_url(url)


def _placed(citation: Citation, annotation: dict[str, Any], base: int) -> Citation:
    """With the characters that it is about. A file is often named at one place, not for a range.

    Services that do not know the place say from 0 to 0.
    """
    first, last = annotation.get("start_index"), annotation.get("end_index")
    if first is None and last is None:
        first = last = annotation.get("index")
    if not isinstance(first, int) or not isinstance(last, int) or not 0 <= first <= last <= _FARTHEST or not last:
        return citation
    return replace(citation, start=base + first, end=base + last)
