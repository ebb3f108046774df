"""What Converse has beside text, thoughts and calls of our tools: its own calls, and the sources of a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from handrail.core.events import CitationAdded, ModelEvent
from handrail.core.messages import Citation
from handrail.models.reply_decoder import ServiceCalls
from handrail.models.shared_decoding import text_at


def service_call_events(calls: ServiceCalls, block: Mapping[str, Any]) -> Iterable[ModelEvent]:
    match block:
        case {"toolUse": {"toolUseId": str(id), "name": str(name), **use}}:
            return calls.begin(id, name, use.get("input"))
        case {"toolResult": {"toolUseId": str(id), **result}}:
            name, failed = str(result.get("type") or "tool"), result.get("status") == "error"
            return (calls.end(id, name, result.get("content"), failed=failed),)
    return ()


def text_of(content: Mapping[str, Any]) -> str:
    """The text of a block that names its sources."""
    parts = content.get("content")
    found = (part.get("text") for part in parts if isinstance(part, dict)) if isinstance(parts, list) else ()
    return "".join(text for text in found if isinstance(text, str))


def citations_added(citations: Any, start: int, end: int) -> Iterator[ModelEvent]:
    """The sources of these characters of the reply."""
    for each in citations if isinstance(citations, list) else ():
        match each:
            case {"location": {"web": {"url": str(url)}}} | {"source": str(url)}:
                pass
            case _:
                url = ""
        if isinstance(each, dict):
            quote = text_of({"content": each.get("sourceContent")})
            citation = Citation(url=url, title=text_at(each, "title"), quote=quote, start=start, end=end)
            yield CitationAdded(citation=citation)
