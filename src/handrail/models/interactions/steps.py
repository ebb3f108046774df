"""Parts of a step as values that every service shares: citations, pictures, calls that the service made itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from handrail.core.events import MediaAdded, ModelEvent
from handrail.core.messages import Citation, Media, ServiceCall
from handrail.models.generated_media import media_from_base64

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
            url=_text(annotation, "url", "document_uri"),
            title=_text(annotation, "title", "file_name", "name"),
            quote=_text(annotation, "source"),
            start=self._begins + start if placed and start is not None else None,
            end=self._begins + end if placed and end is not None else None,
        )


class ServiceSteps:
    """Pairs the calls that the service made with their results."""

    def __init__(self) -> None:
        self._open: dict[str, ServiceCall] = {}

    def take(self, step: Mapping[str, Any]) -> Iterator[ServiceCall]:
        kind = str(step.get("type"))
        if kind.endswith(_CALL):
            id = _text(step, "id")
            self._open[id] = ServiceCall(id=id, name=kind.removesuffix(_CALL), arguments=step.get("arguments"))
        elif kind.endswith(_RESULT):
            id = _text(step, "call_id")
            call = self._open.pop(id, ServiceCall(id=id, name=kind.removesuffix(_RESULT)))
            failed = step.get("is_error") is True
            yield ServiceCall(
                id=call.id, name=call.name, arguments=call.arguments, result=step.get("result"), failed=failed
            )

    def unanswered(self) -> Iterator[ServiceCall]:
        yield from self._open.values()
        self._open.clear()


def is_service_step(kind: str) -> bool:
    return kind.endswith((_CALL, _RESULT)) and not kind.startswith("function_")


def media_of(content: Mapping[str, Any]) -> ModelEvent | None:
    """A picture, a sound or a file that the model made; None if the content has neither data nor an address."""
    kind = _text(content, "mime_type") or f"{_text(content, 'type')}/*"
    data, url = _text(content, "data"), _text(content, "uri")
    if data:
        return media_from_base64(data, kind)
    return MediaAdded(media=Media(media_type=kind, url=url)) if url else None


def _characters(data: bytes, place: Any) -> int | None:
    if not isinstance(place, int) or not 0 <= place <= len(data):
        return None
    return len(data[:place].decode("utf-8", "ignore"))


def _text(facts: Mapping[str, Any], *keys: str) -> str:
    return next((value for key in keys if isinstance(value := facts.get(key), str) and value), "")
