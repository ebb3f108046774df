"""Cohere's wire as its own Python package has it (cohere 7.0.9, `cohere/types` and `cohere/v2/types`), as values that
refuse keys they do not know. The package itself is not installed for the tests."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct


class Strict(Struct, forbid_unknown_fields=True, kw_only=True):
    pass


class Function(Strict):
    name: str
    parameters: dict[str, Any]
    description: str | None = None


class Tool(Strict):
    type: Literal["function"]
    function: Function


class Called(Strict):
    name: str | None = None
    arguments: str | None = None


class Call(Strict):
    id: str
    type: Literal["function"]
    function: Called


class Document(Strict):
    data: dict[str, Any]
    id: str | None = None


class ImageUrl(Strict):
    url: str
    detail: str | None = None


class Text(Strict, tag="text"):
    text: str


class Thinking(Strict, tag="thinking"):
    thinking: str


class Image(Strict, tag="image_url"):
    image_url: ImageUrl


class DocumentContent(Strict, tag="document"):
    document: Document


class ToolSource(Strict, tag="tool"):
    id: str | None = None
    tool_output: dict[str, Any] | None = None


class DocumentSource(Strict, tag="document"):
    id: str | None = None
    document: dict[str, Any] | None = None


class Citation(Strict):
    start: int | None = None
    end: int | None = None
    text: str | None = None
    sources: list[ToolSource | DocumentSource] | None = None
    content_index: int | None = None
    type: Literal["TEXT_CONTENT", "THINKING_CONTENT", "PLAN"] | None = None


class User(Strict, tag_field="role", tag="user"):
    content: str | list[Text | Image]


class Assistant(Strict, tag_field="role", tag="assistant"):
    tool_calls: list[Call] | None = None
    tool_plan: str | None = None
    content: str | list[Text | Thinking] | None = None
    citations: list[Citation] | None = None


class System(Strict, tag_field="role", tag="system"):
    content: str | list[Text]


class ToolMessage(Strict, tag_field="role", tag="tool"):
    tool_call_id: str
    content: str | list[Text | DocumentContent]


class CitationOptions(Strict):
    mode: Literal["ENABLED", "DISABLED", "FAST", "ACCURATE", "OFF"]


class ResponseFormat(Strict):
    type: Literal["text", "json_object"]
    json_schema: dict[str, Any] | None = None


class Request(Strict):
    model: str
    messages: list[User | Assistant | System | ToolMessage]
    stream: bool
    tools: list[Tool] | None = None
    strict_tools: bool | None = None
    documents: list[str | Document] | None = None
    citation_options: CitationOptions | None = None
    response_format: ResponseFormat | None = None
    safety_mode: Literal["CONTEXTUAL", "STRICT", "OFF"] | None = None
    max_tokens: int | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    k: int | None = None
    p: float | None = None
    logprobs: bool | None = None
    tool_choice: Literal["REQUIRED", "NONE"] | None = None
    thinking: dict[str, Any] | None = None
    priority: int | None = None


class Units(Strict):
    input_tokens: float | None = None
    output_tokens: float | None = None
    search_units: float | None = None
    classifications: float | None = None


class Usage(Strict):
    billed_units: Units | None = None
    tokens: Units | None = None
    cached_tokens: float | None = None


class Message(Strict):
    role: Literal["assistant"]
    tool_calls: list[Call] | None = None
    tool_plan: str | None = None
    content: list[Text | Thinking] | None = None
    citations: list[Citation] | None = None


Finish = Literal["COMPLETE", "STOP_SEQUENCE", "MAX_TOKENS", "TOOL_CALL", "ERROR", "TIMEOUT"]


class Reply(Strict):
    id: str
    finish_reason: Finish
    message: Message
    usage: Usage | None = None
    logprobs: list[Any] | None = None


class Piece(Strict):
    """The content of an event: which of the two it is, an event after the first does not say."""

    type: Literal["text", "thinking"] | None = None
    text: str | None = None
    thinking: str | None = None


class CallPiece(Strict):
    function: Called
    id: str | None = None
    type: Literal["function"] | None = None


class MessagePiece(Strict):
    role: Literal["assistant"] | None = None
    content: Piece | list[Any] | None = None
    tool_plan: str | None = None
    tool_calls: CallPiece | list[Any] | None = None
    citations: Citation | list[Any] | None = None


class Delta(Strict):
    message: MessagePiece | None = None
    finish_reason: Finish | None = None
    usage: Usage | None = None
    error: str | None = None


class Event(Strict):
    type: Literal[
        "message-start",
        "content-start",
        "content-delta",
        "content-end",
        "tool-plan-delta",
        "tool-call-start",
        "tool-call-delta",
        "tool-call-end",
        "citation-start",
        "citation-end",
        "message-end",
        "debug",
    ]
    id: str | None = None
    index: int | None = None
    delta: Delta | None = None
    logprobs: Any = None
    prompt: str | None = None


def accepts(body: dict[str, Any]) -> bool:
    request = msgspec.convert(body, Request)
    for message in request.messages:
        assert not isinstance(message, Assistant) or message.content or message.tool_calls, "it says nothing"
    return True


def read_reply(reply: dict[str, Any]) -> Reply:
    return msgspec.convert(reply, Reply)


def read_event(event: dict[str, Any]) -> Event:
    return msgspec.convert(event, Event)
