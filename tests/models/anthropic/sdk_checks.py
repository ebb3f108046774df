"""The anthropic package as a judge of our wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from pydantic import BaseModel, TypeAdapter

_STREAMED: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsStreaming)
_WHOLE: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsNonStreaming)
_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def accepts(body: dict[str, Any]) -> bool:
    """Whether the SDK's types take the body, and know every key in it: unknown ones would be gone."""
    validated = (_STREAMED if body["stream"] else _WHOLE).validate_python(body)
    assert _forced(validated) == body
    return True


def accumulated(events: Iterable[dict[str, Any]]) -> Message:
    """The message that the SDK makes of a stream."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in events:
        if event["type"] != "ping":
            parsed = _EVENT.validate_python(event)
            snapshot = accumulate_event(event=parsed, current_snapshot=snapshot, json_bufs=buffers)
    return Message.model_validate(snapshot.to_dict())


def _forced(value: Any) -> Any:
    """pydantic checks an Iterable only when it is read, and may take a block of a reply for what it is."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, Mapping):
        return {key: _forced(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_forced(item) for item in value]
    return value
