"""Parts of Gemini's reply that are neither text nor calls of our tools: code that it ran, its other tools, pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from handrail.core.events import MediaAdded, ModelEvent, ServiceCallMade
from handrail.core.messages import Media, ServiceCall
from handrail.models.generated_media import media_from_base64

_CODE = "code_execution"


class GeminiServiceParts:
    """One per reply. Pairs code with its output, and each tool with its response."""

    def __init__(self) -> None:
        self._open: dict[str, ServiceCall] = {}

    def take(self, part: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """What a part means, beside being sent back."""
        match part:
            case {"thought": True}:
                return  # a draft
            case {"executableCode": dict(code)}:
                yield from self._begin(code, _CODE, {key: code[key] for key in ("language", "code") if key in code})
            case {"codeExecutionResult": dict(result)}:
                failed = result.get("outcome") not in (None, "OUTCOME_OK")
                yield self._ended(result, _CODE, result.get("output"), failed=failed)
            case {"toolCall": dict(call)}:
                yield from self._begin(call, _name(call), call.get("args"))
            case {"toolResponse": dict(response)}:
                yield self._ended(response, _name(response), response.get("response"), failed=False)
            case {"inlineData": {"mimeType": str(kind), "data": str(data), **more}}:
                standard = data.replace("-", "+").replace("_", "/")
                yield media_from_base64(standard, kind, str(more.get("displayName") or ""))
            case {"fileData": {"mimeType": str(kind), "fileUri": str(url)}}:
                yield MediaAdded(media=Media(media_type=kind, url=url))

    def end(self) -> Iterator[ModelEvent]:
        """What has begun and has no output."""
        for call in self._open.values():
            yield ServiceCallMade(call=call)
        self._open.clear()

    def _begin(self, raw: Mapping[str, Any], name: str, arguments: Any) -> Iterator[ModelEvent]:
        id = str(raw.get("id") or name)
        if (before := self._open.pop(id, None)) is not None:  # without ids, one that had no output
            yield ServiceCallMade(call=before)
        self._open[id] = ServiceCall(id=id, name=name, arguments=arguments)

    def _ended(self, raw: Mapping[str, Any], name: str, result: Any, *, failed: bool) -> ModelEvent:
        id = str(raw.get("id") or name)
        begun = self._open.pop(id, None) or ServiceCall(id=id, name=name)
        return ServiceCallMade(call=replace(begun, result=result, failed=failed))


def _name(call: Mapping[str, Any]) -> str:
    return str(call.get("toolType") or "tool").lower()
