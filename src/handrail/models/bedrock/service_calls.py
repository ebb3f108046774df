"""What Converse has beside text, thoughts and calls of our tools: its own calls, and the sources of a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from handrail.core.events import CitationAdded, ModelEvent, ServiceCallMade
from handrail.core.messages import Citation, ServiceCall


class BedrockServiceCalls:
    """One per reply. Pairs each call of the service's own tools with its result."""

    def __init__(self) -> None:
        self._open: dict[str, ServiceCall] = {}

    def take(self, block: Mapping[str, Any]) -> Iterator[ModelEvent]:
        match block:
            case {"toolUse": {"toolUseId": str(id), "name": str(name), **use}}:
                self._open[id] = ServiceCall(id=id, name=name, arguments=use.get("input"))
            case {"toolResult": {"toolUseId": str(id), **result}}:
                made = self._open.pop(id, None) or ServiceCall(id=id, name=str(result.get("type") or "tool"))
                failed = result.get("status") == "error"
                yield ServiceCallMade(call=replace(made, result=result.get("content"), failed=failed))

    def end(self) -> Iterator[ModelEvent]:
        """Calls that have no result."""
        for call in self._open.values():
            yield ServiceCallMade(call=call)
        self._open.clear()


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
            title = each.get("title")
            quote = text_of({"content": each.get("sourceContent")})
            citation = Citation(
                url=url, title=title if isinstance(title, str) else "", quote=quote, start=start, end=end
            )
            yield CitationAdded(citation=citation)
