"""What is read of a Messages body. `fields.py` says what becomes of the other fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct


class MessagesInlineSource(Struct, tag_field="type", tag="base64"):
    media_type: str
    data: str


class MessagesLinkedSource(Struct, tag_field="type", tag="url"):
    url: str


class MessagesPlainTextSource(Struct, tag_field="type", tag="text"):
    data: str


class MessagesTextBlock(Struct, tag_field="type", tag="text"):
    text: str


class MessagesImageBlock(Struct, tag_field="type", tag="image"):
    source: MessagesInlineSource | MessagesLinkedSource


class MessagesContentSource(Struct, tag_field="type", tag="content"):
    content: str | list[MessagesTextBlock | MessagesImageBlock]


class MessagesDocumentBlock(Struct, tag_field="type", tag="document"):
    source: MessagesInlineSource | MessagesLinkedSource | MessagesPlainTextSource | MessagesContentSource
    title: str | None = None


class MessagesSearchResultBlock(Struct, tag_field="type", tag="search_result"):
    source: str
    title: str
    content: list[MessagesTextBlock]


class MessagesThinkingBlock(Struct, tag_field="type", tag="thinking"):
    pass


class MessagesRedactedThinkingBlock(Struct, tag_field="type", tag="redacted_thinking"):
    pass


class MessagesToolUseBlock(Struct, tag_field="type", tag="tool_use"):
    id: Annotated[str, Meta(min_length=1)]
    name: str
    input: dict[str, Any]


class MessagesToolResultBlock(Struct, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: (
        str | list[MessagesTextBlock | MessagesImageBlock | MessagesDocumentBlock | MessagesSearchResultBlock] | None
    ) = None
    is_error: bool | None = None


Shown = MessagesTextBlock | MessagesImageBlock | MessagesDocumentBlock | MessagesSearchResultBlock
UserBlock = (
    MessagesTextBlock | MessagesImageBlock | MessagesDocumentBlock | MessagesSearchResultBlock | MessagesToolResultBlock
)
AssistantBlock = MessagesTextBlock | MessagesToolUseBlock | MessagesThinkingBlock | MessagesRedactedThinkingBlock


class MessagesUserMessage(Struct, tag_field="role", tag="user"):
    content: str | list[UserBlock]


class MessagesAssistantMessage(Struct, tag_field="role", tag="assistant"):
    content: str | list[AssistantBlock]


class MessagesSystemMessage(Struct, tag_field="role", tag="system"):
    content: str | list[MessagesTextBlock]


class MessagesTool(Struct):
    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] | None = None


class MessagesToolChoice(Struct):
    type: Literal["auto", "any", "none", "tool"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class MessagesOutputFormat(Struct, tag_field="type", tag="json_schema"):
    schema: dict[str, Any]


class MessagesOutputConfig(Struct):
    format: MessagesOutputFormat | None = None


class MessagesMcpToolConfiguration(Struct):
    allowed_tools: list[str] | None = None
    enabled: bool | None = None


class MessagesMcpServer(Struct):
    name: str
    url: str
    type: Literal["url"] = "url"
    tool_configuration: MessagesMcpToolConfiguration | None = None


class MessagesBody(Struct):
    max_tokens: Annotated[int, Meta(ge=1)]
    messages: Annotated[
        list[MessagesUserMessage | MessagesAssistantMessage | MessagesSystemMessage], Meta(min_length=1)
    ]
    mcp_servers: list[MessagesMcpServer] | None = None
    model: str | None = None
    system: str | list[MessagesTextBlock] | None = None
    tools: list[MessagesTool] | None = None
    tool_choice: MessagesToolChoice | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop_sequences: list[str] | None = None
    output_config: MessagesOutputConfig | None = None
    stream: bool | None = None
