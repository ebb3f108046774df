"""What is read of a Messages body, and what becomes of the other fields that Anthropic's client sends."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from handrail.node.gateways.field_rules import (
    CACHING,
    EXTENSION,
    HONOURED,
    NOT_PASSED_ON,
    FieldRule,
    FieldTable,
    hint_field,
    honoured_fields,
    ignored_field,
    refused_field,
)


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


DocumentSource = MessagesInlineSource | MessagesLinkedSource | MessagesPlainTextSource | MessagesContentSource


class MessagesDocumentBlock(Struct, tag_field="type", tag="document"):
    source: DocumentSource
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


Shown = MessagesTextBlock | MessagesImageBlock | MessagesDocumentBlock | MessagesSearchResultBlock


class MessagesToolResultBlock(Struct, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str | list[Shown] | None = None
    is_error: bool | None = None


UserBlock = Shown | MessagesToolResultBlock
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


_NO_THREADS = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
"""The official client goes on without threads when it reads this."""
_BOOKKEEPING = "bookkeeping of Anthropic's"

_THINKING = "the node's configuration decides how much a model thinks"
_PRICE = "price and speed of Anthropic's service"
_BOTH: FieldTable = {
    **EXTENSION,
    **dict.fromkeys(("mcp_servers", "messages", "model", "output_config", "system", "tool_choice", "tools"), HONOURED),
    "cache_control": ignored_field(CACHING),
    "context_management": hint_field("the conversation is taken as it is sent"),
    "speed": ignored_field(_PRICE),
    "thinking": hint_field(_THINKING, {"type": "disabled"}),
}

HEADERS: FieldTable = {
    "betas": ignored_field("a field of a beta is honoured or refused by its own name"),
    "user_profile_id": ignored_field(_BOOKKEEPING),
    "workspace_id": ignored_field(_BOOKKEEPING),
}
"""What the official client takes as fields and sends as headers."""

MESSAGES: FieldTable = {
    **honoured_fields(MessagesBody),
    **_BOTH,
    "compaction": refused_field("the node does not summarise conversations; send a message that asks for a summary"),
    "container": refused_field("there are no containers of Anthropic's here; the node's own tools may run code"),
    "diagnostics": ignored_field("it explains Anthropic's cache"),
    "fallback_credit_token": ignored_field(_BOOKKEEPING),
    "fallbacks": refused_field("the node's configuration says which model takes the place of another; leave it out"),
    "inference_geo": refused_field("where a model runs is up to the node's configuration; leave it out"),
    "metadata": ignored_field(_BOOKKEEPING),
    "service_tier": ignored_field(_PRICE),
    "thread": FieldRule("refused", "no conversation is held here; send all of its messages", api_details=_NO_THREADS),
    "top_k": refused_field(NOT_PASSED_ON),
}

OUTPUT_CONFIG: FieldTable = {
    **honoured_fields(MessagesOutputConfig),
    "effort": hint_field(_THINKING),
    "task_budget": refused_field("use max_tokens; the node has limits of its own for a run"),
}

TOOL: FieldTable = {
    **honoured_fields(MessagesTool),
    "allowed_callers": refused_field("calls come from the model itself here; leave it out", ["direct"]),
    "cache_control": ignored_field(CACHING),
    "defer_loading": hint_field("the node decides which tools a model is shown at once", False),
    "eager_input_streaming": ignored_field("a call is sent when it is complete"),
    "input_examples": hint_field("write them into the description", []),
    "strict": ignored_field("calls are held to the schema as far as the model's service can"),
}
"""The fields of one of the client's tools."""

COUNT: FieldTable = {**_BOTH, "compaction": ignored_field("the service ignores it here too")}
