"""What is read of a request to create a response, and what becomes of the other fields that OpenAI's client sends."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from handrail.node.gateways.field_rules import (
    EXTENSION,
    FieldTable,
    hint_field,
    honoured_fields,
    ignored_field,
    refused_field,
)
from handrail.node.gateways.openai.body import (
    CHAT_OR_RESPONSES,
    ChatFunctionDeclaration,
    ChatJsonObjectFormat,
    ChatRefusalPart,
    ChatSoundPart,
    ChatTextFormat,
)

# ── content ──────────────────────────────────────────────────────────────────────


class ResponsesInputText(Struct, tag_field="type", tag="input_text"):
    text: str


class ResponsesOutputText(Struct, tag_field="type", tag="output_text"):
    text: str


class ResponsesInputImage(Struct, tag_field="type", tag="input_image"):
    image_url: str | None = None
    file_id: str | None = None


class ResponsesInputFile(Struct, tag_field="type", tag="input_file"):
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    file_id: str | None = None


Part = (
    ResponsesInputText
    | ResponsesOutputText
    | ChatRefusalPart
    | ResponsesInputImage
    | ResponsesInputFile
    | ChatSoundPart
)

# ── items ────────────────────────────────────────────────────────────────────────


class MessageItem(Struct):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part]


class FunctionCallItem(Struct):
    call_id: Annotated[str, Meta(min_length=1)]
    name: str
    arguments: str


class FunctionOutputItem(Struct):
    call_id: str
    output: str | list[ResponsesInputText | ResponsesInputImage | ResponsesInputFile]


class McpCallItem(Struct):
    """A call that a node ran, as the answer showed it. The official clients may send it back without its output."""

    id: str
    name: str
    arguments: str
    output: str | None = None
    error: Any = None


class ItemReference(Struct):
    id: str


class IgnoredItem(Struct):
    """What the model thought, as the answer showed it, or what an MCP server offers, as a history of another service
    may have it. Nothing of it goes back to a model."""

    id: str | None = None


class ResponsesGeneratedImageItem(Struct):
    """A picture that the model made, as the answer showed it. It does not go back to a model, and a notice says so."""

    id: str | None = None


Item = (
    MessageItem
    | FunctionCallItem
    | FunctionOutputItem
    | McpCallItem
    | ItemReference
    | IgnoredItem
    | ResponsesGeneratedImageItem
)
ITEMS: dict[str, type[Item]] = {
    "message": MessageItem,
    "function_call": FunctionCallItem,
    "function_call_output": FunctionOutputItem,
    "mcp_call": McpCallItem,
    "item_reference": ItemReference,
    "reasoning": IgnoredItem,
    "mcp_list_tools": IgnoredItem,
    "image_generation_call": ResponsesGeneratedImageItem,
}

# ── tools and settings ───────────────────────────────────────────────────────────


class ResponsesFunctionTool(ChatFunctionDeclaration):
    strict: bool | None = None
    type: Literal["function"] = "function"


class ResponsesNamedFunctionChoice(Struct, tag_field="type", tag="function"):
    name: str


class ResponsesAllowedFunction(Struct):
    name: str
    type: Literal["function", "mcp"] = "function"


class ResponsesAllowedToolsChoice(Struct, tag_field="type", tag="allowed_tools"):
    tools: list[ResponsesAllowedFunction]
    mode: Literal["none", "auto", "required"] = "auto"


class ResponsesJsonSchemaFormat(Struct, tag_field="type", tag="json_schema"):
    name: str = "response"
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class ResponsesTextSettings(Struct):
    format: ChatTextFormat | ChatJsonObjectFormat | ResponsesJsonSchemaFormat | None = None
    verbosity: str | None = None


class ResponsesBody(Struct):
    model: str | None = None
    input: str | list[dict[str, Any]] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    background: bool | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    tools: list[ResponsesFunctionTool] | None = None
    tool_choice: (
        Literal["auto", "none", "required"] | ResponsesNamedFunctionChoice | ResponsesAllowedToolsChoice | None
    ) = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    text: ResponsesTextSettings | None = None
    metadata: Annotated[dict[str, Annotated[str, Meta(max_length=512)]], Meta(max_length=16)] | None = None
    include: list[str] | None = None
    reasoning: dict[str, Any] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    truncation: Literal["auto", "disabled"] | None = None
    service_tier: str | None = None
    top_logprobs: int | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None


RESPONSE: FieldTable = {
    **EXTENSION,
    **honoured_fields(ResponsesBody),
    **CHAT_OR_RESPONSES,
    "access_programs": refused_field("there are no such programs here; leave it out"),
    "context_management": refused_field("the node trims long conversations by its own settings; leave it out", []),
    "conversation": refused_field("conversations are not kept here; continue a response with previous_response_id"),
    "image": ignored_field("the model's service decides how it reads images"),
    "max_tool_calls": refused_field("the node's own limits bound the calls of a response; leave it out"),
    "prompt": refused_field("there are no stored prompts here; send instructions and input"),
    "reasoning": hint_field("the node's configuration decides how much a model thinks", {}),
    "stream_options": ignored_field("it pads the events of OpenAI's service"),
    "truncation": hint_field("the node trims long conversations by its own settings", "disabled"),
}
TEXT: FieldTable = {
    **honoured_fields(ResponsesTextSettings),
    "verbosity": hint_field("the node's models decide how much they say", "medium"),
}
