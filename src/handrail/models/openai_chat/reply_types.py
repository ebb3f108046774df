"""The parts of a Chat Completions reply that are read, as loosely as compatible servers write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from handrail.core.errors import ProtocolError

T = TypeVar("T")


class ChatFunctionDelta(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ChatCallDelta(Struct):
    index: int | None = None
    id: str | int | None = None
    function: ChatFunctionDelta | None = None
    extra_content: Any = None
    """Gemini's signature of the call."""


class ChatMessageDelta(Struct):
    """A `delta` or a `message`."""

    content: str | list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[ChatCallDelta] | None = None
    function_call: ChatFunctionDelta | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    """A profile says which of the two counts, or both."""
    annotations: Any = None
    images: Any = None
    """Pictures that the model made, as OpenRouter has them."""
    reasoning_details: Any = None
    extra_content: Any = None


class ChatChoice(Struct):
    index: int | None = None
    delta: ChatMessageDelta | None = None
    message: ChatMessageDelta | None = None
    finish_reason: str | None = None
    stop_reason: Any = None
    usage: dict[str, Any] | None = None


class ChatChunk(Struct):
    model: str | None = None
    choices: list[ChatChoice] | None = None
    usage: dict[str, Any] | None = None
    x_groq: dict[str, Any] | None = None
    """The place of the usage in Groq's streams."""


def read_chat_chunk(data: Mapping[str, Any], kind: type[T]) -> T:
    """A JSON object of a reply as a struct.

    Raises:
        ProtocolError: The service wrote something else.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"the reply is not in the form of this wire: {error}") from None
