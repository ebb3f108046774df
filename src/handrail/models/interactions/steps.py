"""Parts of a step as values that every service shares: citations, pictures, calls that the service made itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from handrail.core.events import MediaAdded, ModelEvent
from handrail.core.messages import Citation, Media
from handrail.models.reply_decoder import ServiceCalls
from handrail.models.shared_decoding import media_from_base64, text_at

_CALL, _RESULT = "_call", "_result"


class StepText:
    """The text of one step, and where it begins in the reply. Google counts bytes."""

    def __init__(self, begins: int) -> None:
        self._begins = begins
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def citation(self, annotation: Mapping[str, Any]) -> Citation:
        data = "".join(self._pieces).encode("utf-8", "surrogatepass")
        start, end = (_characters(data, annotation.get(key)) for key in ("start_index", "end_index"))
        if start is None and end is not None:
            start = 0  # a nought is left out on the wire
        placed = start is not None and end is not None and start <= end
        return Citation(
            url=text_at(annotation, "url", "document_uri"),
            title=text_at(annotation, "title", "file_name", "name"),
            quote=text_at(annotation, "source"),
            start=self._begins + start if placed and start is not None else None,
            end=self._begins + end if placed and end is not None else None,
        )


def service_step_events(calls: ServiceCalls, step: Mapping[str, Any]) -> Iterable[ModelEvent]:
    """What a step means that the service took itself."""
    kind = str(step.get("type"))
    if kind.endswith(_CALL):
        return calls.begin(text_at(step, "id"), kind.removesuffix(_CALL), step.get("arguments"))
    if kind.endswith(_RESULT):
        failed = step.get("is_error") is True
        return (calls.end(text_at(step, "call_id"), kind.removesuffix(_RESULT), step.get("result"), failed=failed),)
    return ()


def is_service_step(kind: str) -> bool:
    return kind.endswith((_CALL, _RESULT)) and not kind.startswith("function_")


def media_of(content: Mapping[str, Any]) -> ModelEvent | None:
    """A picture, a sound or a file that the model made; None if the content has neither data nor an address."""
    kind = text_at(content, "mime_type") or f"{text_at(content, 'type')}/*"
    data, url = text_at(content, "data"), text_at(content, "uri")
    if data:
        return media_from_base64(data, kind)
    return MediaAdded(media=Media(media_type=kind, url=url)) if url else None


def _characters(data: bytes, place: Any) -> int | None:
    if not isinstance(place, int) or not 0 <= place <= len(data):
        return None
    return len(data[:place].decode("utf-8", "ignore"))
