"""What is read of a Chat Completions body, and what becomes of the other fields that OpenAI's client sends."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from handrail.node.gateways.field_rules import (
    CACHING,
    EXTENSION,
    NOT_PASSED_ON,
    FieldTable,
    hint_field,
    honoured_fields,
    ignored_field,
    refused_field,
)


class ChatImageAddress(Struct):
    url: str


class ChatSoundData(Struct):
    data: str
    format: Literal["wav", "mp3"]


class ChatFileData(Struct):
    file_data: str | None = None
    filename: str | None = None


class ChatTextPart(Struct, tag_field="type", tag="text"):
    text: str


class ChatRefusalPart(Struct, tag_field="type", tag="refusal"):
    refusal: str


class ChatImagePart(Struct, tag_field="type", tag="image_url"):
    image_url: ChatImageAddress


class ChatSoundPart(Struct, tag_field="type", tag="input_audio"):
    input_audio: ChatSoundData


class ChatFilePart(Struct, tag_field="type", tag="file"):
    file: ChatFileData


Part = ChatTextPart | ChatImagePart | ChatSoundPart | ChatFilePart


class ChatFunctionCall(Struct):
    name: str
    arguments: str


class ChatToolCall(Struct):
    id: Annotated[str, Meta(min_length=1)]
    function: ChatFunctionCall
    type: Literal["function"] = "function"


class ChatSystemMessage(Struct, tag_field="role", tag="system"):
    content: str | list[ChatTextPart]


class ChatDeveloperMessage(Struct, tag_field="role", tag="developer"):
    content: str | list[ChatTextPart]


class ChatUserMessage(Struct, tag_field="role", tag="user"):
    content: str | list[Part]


class ChatAssistantMessage(Struct, tag_field="role", tag="assistant"):
    content: str | list[ChatTextPart | ChatRefusalPart] | None = None
    refusal: str | None = None
    tool_calls: list[ChatToolCall] | None = None
    function_call: Any = None
    audio: Any = None


class ChatToolMessage(Struct, tag_field="role", tag="tool"):
    tool_call_id: str
    content: str | list[Part]


Said = ChatSystemMessage | ChatDeveloperMessage | ChatUserMessage | ChatAssistantMessage | ChatToolMessage


class ChatFunctionDeclaration(Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ChatToolDeclaration(Struct):
    function: ChatFunctionDeclaration
    type: Literal["function"] = "function"


class ChatFunctionName(Struct):
    name: str


class ChatNamedToolChoice(Struct, tag_field="type", tag="function"):
    function: ChatFunctionName


class ChatAllowedTool(Struct):
    function: ChatFunctionName
    type: Literal["function"] = "function"


class ChatAllowedTools(Struct):
    tools: list[ChatAllowedTool]
    mode: Literal["auto", "required"] = "auto"


class ChatAllowedToolsChoice(Struct, tag_field="type", tag="allowed_tools"):
    allowed_tools: ChatAllowedTools


class ChatJsonSchema(Struct):
    schema: dict[str, Any] | None = None


class ChatTextFormat(Struct, tag_field="type", tag="text"):
    pass


class ChatJsonObjectFormat(Struct, tag_field="type", tag="json_object"):
    pass


class ChatJsonSchemaFormat(Struct, tag_field="type", tag="json_schema"):
    json_schema: ChatJsonSchema


ChatFormat = ChatTextFormat | ChatJsonObjectFormat | ChatJsonSchemaFormat


class ChatStreamOptions(Struct):
    include_usage: bool | None = None


class ChatBody(Struct):
    messages: Annotated[list[Said], Meta(min_length=1)]
    model: str | None = None
    tools: list[ChatToolDeclaration] | None = None
    tool_choice: Literal["auto", "none", "required"] | ChatNamedToolChoice | ChatAllowedToolsChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    response_format: ChatFormat | None = None
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None


_BOOKKEEPING = "bookkeeping of OpenAI's"
OPENAI_REFUSED: FieldTable = {
    "frequency_penalty": refused_field(NOT_PASSED_ON, 0),
    "presence_penalty": refused_field(NOT_PASSED_ON, 0),
    "user": ignored_field(_BOOKKEEPING),
}
"""Fields of Chat Completions, Completions and Responses that are not honoured in any of them."""
CHAT_OR_RESPONSES: FieldTable = {
    **OPENAI_REFUSED,
    "moderation": refused_field("this node runs no moderation; leave it out"),
    "prompt_cache_key": ignored_field(CACHING),
    "prompt_cache_options": ignored_field(CACHING),
    "prompt_cache_retention": ignored_field(CACHING),
    "safety_identifier": ignored_field(_BOOKKEEPING),
    "service_tier": ignored_field("price and speed of OpenAI's service"),
    "top_logprobs": refused_field("log probabilities are not given here; leave it out", 0),
}
CHAT: FieldTable = {
    **EXTENSION,
    **honoured_fields(ChatBody),
    **CHAT_OR_RESPONSES,
    "audio": refused_field("answers are text"),
    "function_call": refused_field("write it as tool_choice"),
    "functions": refused_field("write them as tools, and the choice as tool_choice"),
    "logit_bias": refused_field(NOT_PASSED_ON, {}),
    "logprobs": refused_field("log probabilities are not given here; leave it out", False),
    "metadata": ignored_field(_BOOKKEEPING),
    "modalities": refused_field("answers are text", ["text"], []),
    "n": refused_field("one answer to a request is given here; leave it out, or ask again", 1),
    "prediction": ignored_field("it makes the same answer faster"),
    "reasoning_effort": hint_field("the node's configuration decides how much a model thinks"),
    "store": hint_field("answers are recorded in the node's journal, and not to be fetched by their ids", False),
    "verbosity": hint_field("say it in the messages", "medium"),
    "web_search_options": refused_field("there is no search of OpenAI's here; the node's own tools may have one"),
}
STREAM_OPTIONS: FieldTable = {
    **honoured_fields(ChatStreamOptions),
    "include_obfuscation": refused_field("nothing is padded here; leave it out", False),
}
FUNCTION: FieldTable = {
    **honoured_fields(ChatFunctionDeclaration),
    "strict": ignored_field("calls are held to the schema as far as the model's service can"),
}
"""The fields of `function` in one of the client's tools."""
JSON_SCHEMA: FieldTable = {
    **honoured_fields(ChatJsonSchema),
    "description": hint_field("write it into the messages"),
    "name": ignored_field("nothing here goes by it"),
    "strict": ignored_field("the answer is held to the schema as far as the model's service can"),
}
"""The fields of `response_format.json_schema`."""
