"""Content as a list of chunks, as Mistral writes it: thoughts, references, pictures beside text. And back again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from handrail.core.events import CitationAdded, ModelEvent
from handrail.core.messages import Citation
from handrail.models.shared_decoding import picture_from_url
from handrail.models.unknown_kinds import UnknownKinds


def chunk_events(chunk: Any, unknown: UnknownKinds) -> Iterator[ModelEvent]:
    """What a chunk means that is neither text nor a thought."""
    match chunk:
        case {"type": "reference", "reference_ids": [*ids]}:
            for id in ids:
                yield CitationAdded(citation=Citation(title=str(id)))
        case {"type": "tool_reference"}:
            about = {key: value for key, value in chunk.items() if isinstance(value, str)}
            yield CitationAdded(
                citation=Citation(
                    url=about.get("url", ""), title=about.get("title", ""), quote=about.get("description", "")
                )
            )
        case {"type": "image_url", "image_url": str(url) | {"url": str(url)}}:
            yield picture_from_url(url, unknown="image/*")
        case {"type": "text" | "thinking"}:
            return
        case _:
            yield from unknown.piece(chunk.get("type") if isinstance(chunk, Mapping) else type(chunk).__name__)


def with_thoughts(message: dict[str, Any], field: str) -> dict[str, Any]:
    """A message whose thoughts are a chunk of its content and not a field, which Mistral would refuse."""
    if not (thoughts := message.get(field)):
        return {key: value for key, value in message.items() if key != field}
    chunks: list[dict[str, Any]] = [{"type": "thinking", "thinking": [{"type": "text", "text": thoughts}]}]
    if text := message.get("content"):
        chunks.append({"type": "text", "text": text})
    return {**{key: value for key, value in message.items() if key != field}, "content": chunks}


def with_prefix(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages, of which the last is the beginning of the reply, that the service continues."""
    return [*messages[:-1], {**messages[-1], "prefix": True}]


def begins_reply(messages: list[dict[str, Any]]) -> bool:
    """Whether the assistant spoke last, and called nothing."""
    return bool(messages) and messages[-1].get("role") == "assistant" and "tool_calls" not in messages[-1]
