"""Parts of Gemini's reply that are neither text nor calls of our tools: code that it ran, its other tools, pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from handrail.core.events import MediaAdded, ModelEvent
from handrail.core.messages import Media
from handrail.models.reply_decoder import ServiceCalls
from handrail.models.shared_decoding import media_from_base64

_CODE = "code_execution"


def service_part_events(calls: ServiceCalls, part: Mapping[str, Any]) -> Iterable[ModelEvent]:
    """What a part means, beside being sent back."""
    match part:
        case {"thought": True}:
            return ()  # a draft
        case {"executableCode": dict(code)}:
            written = {key: code[key] for key in ("language", "code") if key in code}
            return calls.begin(_id(code, _CODE), _CODE, written)
        case {"codeExecutionResult": dict(result)}:
            failed = result.get("outcome") not in (None, "OUTCOME_OK")
            return (calls.end(_id(result, _CODE), _CODE, result.get("output"), failed=failed),)
        case {"toolCall": dict(call)}:
            return calls.begin(_id(call, _name(call)), _name(call), call.get("args"))
        case {"toolResponse": dict(done)}:
            return (calls.end(_id(done, _name(done)), _name(done), done.get("response"), failed=False),)
        case {"inlineData": {"mimeType": str(kind), "data": str(data), **more}}:
            standard = data.replace("-", "+").replace("_", "/")
            return (media_from_base64(standard, kind, str(more.get("displayName") or "")),)
        case {"fileData": {"mimeType": str(kind), "fileUri": str(url)}}:
            return (MediaAdded(media=Media(media_type=kind, url=url)),)
    return ()


def _id(raw: Mapping[str, Any], name: str) -> str:
    return str(raw.get("id") or name)


def _name(call: Mapping[str, Any]) -> str:
    return str(call.get("toolType") or "tool").lower()
