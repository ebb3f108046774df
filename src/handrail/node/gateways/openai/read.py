"""A Chat Completions body as what is asked. Fields that cannot be honoured are refused by their names."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.messages import (
    AssistantMessage,
    Content,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice
from handrail.node.gateways.field_rules import check_fields
from handrail.node.gateways.openai import body
from handrail.node.gateways.openai.tools import is_mcp_tool, mcp_servers_of, offers_of, without_mcp_tools
from handrail.node.gateways.request import GatewayRequest
from handrail.node.gateways.request_parsing import (
    bytes_of,
    check_answered,
    check_tools,
    convert_field,
    extension_of,
    media_at,
    read_json_object,
    refuse_field,
    result_of,
    sound_of,
    stop_sequences_of,
)

_FUNCTION = {"type": "function", "function": {"name": "mcp"}}


def read_chat_request(data: bytes, headers: Mapping[str, str], most: int) -> GatewayRequest:
    """Reads a request to Chat Completions.

    Raises:
        BusError: The request cannot be answered as it stands (`bad_request`), with the place that is wrong.
    """
    given = read_json_object(data, most)
    tools_said = given.get("tools")
    hints = check_fields(given, body.CHAT)
    servers, more = mcp_servers_of(tools_said)
    said = convert_field({**given, "tools": without_mcp_tools(tools_said, _FUNCTION)}, body.ChatBody)
    hints += more + _check_parts(given)
    messages = tuple(_ChatMessagesReader().read(said.messages))
    check_answered(messages)
    choice, only = _choice(said)
    tools = offers_of([tool.function for tool in said.tools or ()], tools_said)
    check_tools(tools, choice, "tools")
    return GatewayRequest(
        model=said.model,
        messages=messages,
        settings=_settings(said),
        tools=tools,
        choice=choice,
        only=only,
        stream=bool(said.stream),
        usage=bool(said.stream_options and said.stream_options.include_usage),
        ours=extension_of(given, headers),
        mcp_servers=servers,
        ignored=hints,
    )


def _check_parts(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The hints among the fields inside of the request's fields, whose forms are known to be right."""
    hints = check_fields(given.get("stream_options") or {}, body.STREAM_OPTIONS, "stream_options.")
    form = (given.get("response_format") or {}).get("json_schema") or {}
    hints += check_fields(form, body.JSON_SCHEMA, "response_format.json_schema.")
    for at, tool in enumerate(given.get("tools") or ()):
        if not is_mcp_tool(tool):
            hints += check_fields(tool["function"], body.FUNCTION, f"tools[{at}].function.")
    return hints


def _settings(said: body.ChatBody) -> ModelRequest:
    return ModelRequest(
        messages=(),
        parallel=said.parallel_tool_calls is not False,
        max_tokens=said.max_completion_tokens or said.max_tokens,
        temperature=said.temperature,
        top_p=said.top_p,
        stop=stop_sequences_of(said.stop, "stop"),
        seed=said.seed,
        response_schema=_schema(said.response_format),
    )


def _schema(form: body.ChatFormat | None) -> dict[str, Any] | None:
    match form:
        case body.ChatJsonObjectFormat():
            return {"type": "object"}
        case body.ChatJsonSchemaFormat(json_schema=body.ChatJsonSchema(schema=schema)):
            return schema or {"type": "object"}
    return None


def _choice(said: body.ChatBody) -> tuple[ToolChoice, tuple[str, ...] | None]:
    """The choice, and the tools that it leaves."""
    match said.tool_choice:
        case body.ChatNamedToolChoice(function=body.ChatFunctionName(name=name)):
            return NamedTool(name), None
        case body.ChatAllowedToolsChoice(allowed_tools=body.ChatAllowedTools(tools=tools, mode=mode)):
            return mode, tuple(tool.function.name for tool in tools)
        case word:
            return word or "auto", None


class _ChatMessagesReader:
    """Messages in order: a result says only the id of its call, which came before."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def read(self, said: list[body.Said]) -> Iterator[Message]:
        for at, message in enumerate(said):
            match message:
                case body.ChatSystemMessage(content=content) | body.ChatDeveloperMessage(content=content):
                    yield SupervisorMessage(_text(content, "\n\n"))
                case body.ChatUserMessage(content=content):
                    yield UserMessage(_content(content, f"messages[{at}].content"))
                case body.ChatAssistantMessage(function_call=None, audio=None):
                    yield from self._assistant(message)
                case body.ChatAssistantMessage(function_call=None):
                    refuse_field(
                        f"messages[{at}].audio", "no spoken answers are kept here; send what was said as content"
                    )
                case body.ChatAssistantMessage():
                    refuse_field(
                        f"messages[{at}].function_call",
                        "write it as one of tool_calls, and what came of it as role tool",
                    )
                case body.ChatToolMessage(tool_call_id=id, content=content):
                    yield ResultMessage(self._result(id, content, f"messages[{at}].content"))
                case _:
                    assert_never(message)

    def _result(self, id: str, content: str | list[body.Part], param: str) -> ToolResult:
        return result_of(id, self._names.get(id, ""), _content(content, param) if content else (), param)

    def _assistant(self, message: body.ChatAssistantMessage) -> Iterator[Message]:
        calls = message.tool_calls or ()
        text = _text(message.content or "", "") or message.refusal or ""
        yield AssistantMessage(text, stop="tool_calls" if calls else "end")
        for call in calls:
            self._names[call.id] = call.function.name
            yield InvocationMessage(ToolCall(call.id, call.function.name, call.function.arguments))


def _text(content: str | list[body.ChatTextPart] | list[body.ChatTextPart | body.ChatRefusalPart], between: str) -> str:
    if isinstance(content, str):
        return content
    return between.join(part.text if isinstance(part, body.ChatTextPart) else part.refusal for part in content)


def _content(content: str | list[body.Part], param: str) -> tuple[Content, ...]:
    if isinstance(content, str):
        return (Text(content),)
    if not content:
        refuse_field(param, "is empty; say something")
    return tuple(_part(part, f"{param}[{at}]") for at, part in enumerate(content))


def _part(part: body.Part, param: str) -> Content:
    match part:
        case body.ChatTextPart(text=text):
            return Text(text)
        case body.ChatImagePart(image_url=body.ChatImageAddress(url=url)):
            return media_at(url, f"{param}.image_url.url")
        case body.ChatSoundPart(input_audio=body.ChatSoundData(data=data, format=form)):
            return sound_of(data, form, f"{param}.input_audio.data")
        case body.ChatFilePart(file=body.ChatFileData(file_data=str(data), filename=name)):
            return _file(data, name or "", f"{param}.file.file_data")
        case body.ChatFilePart():
            refuse_field(f"{param}.file", "send the file itself, as file_data; there are no uploads here")
    assert_never(part)


def _file(data: str, name: str, param: str) -> Media:
    """A file as a `data:` address, or as bare base64 whose kind its name tells."""
    if ":" in data[:100]:
        return media_at(data, param, name, "application/pdf")
    kind = mimetypes.guess_type(name)[0] or "application/pdf"
    return Media(media_type=kind, data=bytes_of(data, param), name=name)
