"""The `openai` types as judges: a body is right if it passes, with nothing in it that they do not know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from pydantic import TypeAdapter

_CHAT = (TypeAdapter(CompletionCreateParamsNonStreaming), TypeAdapter(CompletionCreateParamsStreaming))
_RESPONSES = (TypeAdapter(ResponseCreateParamsNonStreaming), TypeAdapter(ResponseCreateParamsStreaming))


def check_chat(body: Mapping[str, Any]) -> None:
    assert _settled(_CHAT[bool(body.get("stream"))].validate_python(body, strict=False)) == body


def check_responses(body: Mapping[str, Any]) -> None:
    assert _settled(_RESPONSES[bool(body.get("stream"))].validate_python(body, strict=False)) == body


def _settled(value: Any) -> Any:
    """Their types read lists only as they are walked, and leave out what they do not know."""
    match value:
        case Mapping():
            return {key: _settled(part) for key, part in value.items()}
        case str() | int() | float() | None:
            return value
        case Iterable():
            return [_settled(part) for part in value]
    raise AssertionError(f"not JSON: {value!r}")
