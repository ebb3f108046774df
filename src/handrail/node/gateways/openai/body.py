"""What is read of a Chat Completions body. `fields.py` says what becomes of the other fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct


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
    response_format: ChatTextFormat | ChatJsonObjectFormat | ChatJsonSchemaFormat | None = None
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
