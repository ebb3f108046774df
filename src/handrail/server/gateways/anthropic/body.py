"""What is read of a Messages body. `fields.py` says what becomes of the other fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct


class Inline(Struct, tag_field="type", tag="base64"):
    media_type: str
    data: str


class Linked(Struct, tag_field="type", tag="url"):
    url: str


class Plain(Struct, tag_field="type", tag="text"):
    data: str


class TextBlock(Struct, tag_field="type", tag="text"):
    text: str


class Image(Struct, tag_field="type", tag="image"):
    source: Inline | Linked


class Contents(Struct, tag_field="type", tag="content"):
    content: str | list[TextBlock | Image]


class Document(Struct, tag_field="type", tag="document"):
    source: Inline | Linked | Plain | Contents
    title: str | None = None


class SearchResult(Struct, tag_field="type", tag="search_result"):
    source: str
    title: str
    content: list[TextBlock]


class Thinking(Struct, tag_field="type", tag="thinking"):
    pass


class Redacted(Struct, tag_field="type", tag="redacted_thinking"):
    pass


class Use(Struct, tag_field="type", tag="tool_use"):
    id: Annotated[str, Meta(min_length=1)]
    name: str
    input: dict[str, Any]


class Result(Struct, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str | list[TextBlock | Image | Document | SearchResult] | None = None
    is_error: bool | None = None


Shown = TextBlock | Image | Document | SearchResult
UserBlock = TextBlock | Image | Document | SearchResult | Result
AssistantBlock = TextBlock | Use | Thinking | Redacted


class User(Struct, tag_field="role", tag="user"):
    content: str | list[UserBlock]


class Assistant(Struct, tag_field="role", tag="assistant"):
    content: str | list[AssistantBlock]


class System(Struct, tag_field="role", tag="system"):
    content: str | list[TextBlock]


class Declared(Struct):
    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] | None = None


class Choice(Struct):
    type: Literal["auto", "any", "none", "tool"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Format(Struct, tag_field="type", tag="json_schema"):
    schema: dict[str, Any]


class Output(Struct):
    format: Format | None = None


class ToolConfiguration(Struct):
    allowed_tools: list[str] | None = None
    enabled: bool | None = None


class McpServer(Struct):
    name: str
    url: str
    type: Literal["url"] = "url"
    tool_configuration: ToolConfiguration | None = None


class Body(Struct):
    max_tokens: Annotated[int, Meta(ge=1)]
    messages: Annotated[list[User | Assistant | System], Meta(min_length=1)]
    mcp_servers: list[McpServer] | None = None
    model: str | None = None
    system: str | list[TextBlock] | None = None
    tools: list[Declared] | None = None
    tool_choice: Choice | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop_sequences: list[str] | None = None
    output_config: Output | None = None
    stream: bool | None = None
