"""What is read of a Chat Completions body. `fields.py` says what becomes of the other fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct


class Address(Struct):
    url: str


class Sound(Struct):
    data: str
    format: Literal["wav", "mp3"]


class File(Struct):
    file_data: str | None = None
    filename: str | None = None


class TextPart(Struct, tag_field="type", tag="text"):
    text: str


class RefusalPart(Struct, tag_field="type", tag="refusal"):
    refusal: str


class ImagePart(Struct, tag_field="type", tag="image_url"):
    image_url: Address


class SoundPart(Struct, tag_field="type", tag="input_audio"):
    input_audio: Sound


class FilePart(Struct, tag_field="type", tag="file"):
    file: File


Part = TextPart | ImagePart | SoundPart | FilePart


class Function(Struct):
    name: str
    arguments: str


class Call(Struct):
    id: Annotated[str, Meta(min_length=1)]
    function: Function
    type: Literal["function"] = "function"


class System(Struct, tag_field="role", tag="system"):
    content: str | list[TextPart]


class Developer(Struct, tag_field="role", tag="developer"):
    content: str | list[TextPart]


class User(Struct, tag_field="role", tag="user"):
    content: str | list[Part]


class Assistant(Struct, tag_field="role", tag="assistant"):
    content: str | list[TextPart | RefusalPart] | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    function_call: Any = None
    audio: Any = None


class Answer(Struct, tag_field="role", tag="tool"):
    tool_call_id: str
    content: str | list[Part]


Said = System | Developer | User | Assistant | Answer


class Declared(Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Item(Struct):
    function: Declared
    type: Literal["function"] = "function"


class Name(Struct):
    name: str


class Named(Struct, tag_field="type", tag="function"):
    function: Name


class OneOf(Struct):
    function: Name
    type: Literal["function"] = "function"


class Some(Struct):
    tools: list[OneOf]
    mode: Literal["auto", "required"] = "auto"


class Allowed(Struct, tag_field="type", tag="allowed_tools"):
    allowed_tools: Some


class Schema(Struct):
    schema: dict[str, Any] | None = None


class AsText(Struct, tag_field="type", tag="text"):
    pass


class AsObject(Struct, tag_field="type", tag="json_object"):
    pass


class AsSchema(Struct, tag_field="type", tag="json_schema"):
    json_schema: Schema


class StreamOptions(Struct):
    include_usage: bool | None = None


class Body(Struct):
    messages: Annotated[list[Said], Meta(min_length=1)]
    model: str | None = None
    tools: list[Item] | None = None
    tool_choice: Literal["auto", "none", "required"] | Named | Allowed | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    response_format: AsText | AsObject | AsSchema | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
