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
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.node.gateways.field_rules import check_fields
from handrail.node.gateways.openai.body import (
    ChatAllowedTools,
    ChatAllowedToolsChoice,
    ChatAssistantMessage,
    ChatBody,
    ChatDeveloperMessage,
    ChatFileData,
    ChatFilePart,
    ChatFunctionName,
    ChatImageAddress,
    ChatImagePart,
    ChatJsonObjectFormat,
    ChatJsonSchema,
    ChatJsonSchemaFormat,
    ChatNamedToolChoice,
    ChatRefusalPart,
    ChatSoundData,
    ChatSoundPart,
    ChatSystemMessage,
    ChatTextFormat,
    ChatTextPart,
    ChatToolDeclaration,
    ChatToolMessage,
    ChatUserMessage,
    Part,
    Said,
)
from handrail.node.gateways.openai.fields import CHAT, FUNCTION, JSON_SCHEMA, STREAM_OPTIONS
from handrail.node.gateways.openai.mcp_tool import mcp_server_of
from handrail.node.gateways.request import GatewayRequest, NamedMcpServer
from handrail.node.gateways.request_parsing import (
    attachment_of,
    bytes_of,
    check_answered,
    check_tools,
    convert_field,
    extension_of,
    media_at,
    read_json_object,
    refuse_field,
    stop_sequences_of,
)

_SERVER = {"type": "function", "function": {"name": "mcp"}}
_ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}


def read_chat_request(data: bytes, headers: Mapping[str, str], most: int) -> GatewayRequest:
    """
    Raises:
        BusError: The request cannot be answered as it stands (`bad_request`), with the place that is wrong.
    """
    given = read_json_object(data, most)
    hints = check_fields(given, CHAT)
    servers, more = _mcp_servers(given.get("tools"))
    body = convert_field({**given, "tools": _declared(given.get("tools"))}, ChatBody)
    hints += more + _check_parts(given)
    messages = tuple(_ChatMessagesReader().read(body.messages))
    check_answered(messages)
    choice, only = _choice(body)
    tools = tuple(
        _offer(tool)
        for tool, said in zip(body.tools or (), given.get("tools") or (), strict=True)
        if not _is_server(said)
    )
    check_tools(tools, choice, "tools")
    return GatewayRequest(
        model=body.model,
        messages=messages,
        settings=_settings(body),
        tools=tools,
        choice=choice,
        only=only,
        stream=bool(body.stream),
        usage=bool(body.stream_options and body.stream_options.include_usage),
        ours=extension_of(given, headers),
        mcp_servers=servers,
        ignored=hints,
    )


def _is_server(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "mcp"


def _declared(tools: Any) -> Any:
    """The tools with something harmless in the place of each MCP server, so that the others keep their places."""
    if not isinstance(tools, list):
        return tools
    for at, tool in enumerate(tools):
        if isinstance(tool, dict) and tool.get("type", "function") not in ("function", "mcp"):
            refuse_field(f"tools[{at}].type", "declare it as a function; other tools of OpenAI's are not here")
    return [_SERVER if _is_server(tool) else tool for tool in tools]


def _mcp_servers(tools: Any) -> tuple[tuple[NamedMcpServer, ...], tuple[str, ...]]:
    named = enumerate(tools) if isinstance(tools, list) else ()
    found = [mcp_server_of(tool, f"tools[{at}]") for at, tool in named if _is_server(tool)]
    return tuple(server for server, _ in found), tuple(hint for _, hints in found for hint in hints)


def _check_parts(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The hints among the fields inside of the request's fields, whose forms are known to be right."""
    hints = check_fields(given.get("stream_options") or {}, STREAM_OPTIONS, "stream_options.")
    form = (given.get("response_format") or {}).get("json_schema") or {}
    hints += check_fields(form, JSON_SCHEMA, "response_format.json_schema.")
    for at, tool in enumerate(given.get("tools") or ()):
        if not _is_server(tool):
            hints += check_fields(tool["function"], FUNCTION, f"tools[{at}].function.")
    return hints


def _settings(body: ChatBody) -> ModelRequest:
    return ModelRequest(
        messages=(),
        parallel=body.parallel_tool_calls is not False,
        max_tokens=body.max_completion_tokens or body.max_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        stop=stop_sequences_of(body.stop, "stop"),
        seed=body.seed,
        response_schema=_schema(body.response_format),
    )


def _schema(form: ChatTextFormat | ChatJsonObjectFormat | ChatJsonSchemaFormat | None) -> dict[str, Any] | None:
    match form:
        case ChatJsonObjectFormat():
            return {"type": "object"}
        case ChatJsonSchemaFormat(json_schema=ChatJsonSchema(schema=schema)):
            return schema or {"type": "object"}
    return None


def _offer(item: ChatToolDeclaration) -> ToolOffer:
    declared = item.function
    return ToolOffer(declared.name, declared.description or "", declared.parameters or _ANYTHING)


def _choice(body: ChatBody) -> tuple[ToolChoice, tuple[str, ...] | None]:
    """The choice, and the tools that it leaves."""
    match body.tool_choice:
        case ChatNamedToolChoice(function=ChatFunctionName(name=name)):
            return NamedTool(name), None
        case ChatAllowedToolsChoice(allowed_tools=ChatAllowedTools(tools=tools, mode=mode)):
            return mode, tuple(tool.function.name for tool in tools)
        case None:
            return "auto", None
        case "auto" | "none" | "required" as word:
            return word, None
    assert_never(body.tool_choice)


class _ChatMessagesReader:
    """Messages in order: a result says only the id of its call, which came before."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def read(self, said: list[Said]) -> Iterator[Message]:
        for at, message in enumerate(said):
            match message:
                case ChatSystemMessage(content=content) | ChatDeveloperMessage(content=content):
                    yield SupervisorMessage(_text(content, "\n\n"))
                case ChatUserMessage(content=content):
                    yield UserMessage(_content(content, f"messages[{at}].content"))
                case ChatAssistantMessage(function_call=None, audio=None):
                    yield from self._assistant(message)
                case ChatAssistantMessage(function_call=None):
                    refuse_field(
                        f"messages[{at}].audio", "no spoken answers are kept here; send what was said as content"
                    )
                case ChatAssistantMessage():
                    refuse_field(
                        f"messages[{at}].function_call",
                        "write it as one of tool_calls, and what came of it as role tool",
                    )
                case ChatToolMessage(tool_call_id=id, content=content):
                    yield ResultMessage(self._result(id, content, f"messages[{at}].content"))
                case _:
                    assert_never(message)

    def _result(self, id: str, content: str | list[Part], param: str) -> ToolResult:
        parts = _content(content, param) if content else ()
        attached = tuple(attachment_of(part, param) for part in parts if isinstance(part, Media))
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        return ToolResult(id, self._names.get(id, ""), text, attachments=attached)

    def _assistant(self, message: ChatAssistantMessage) -> Iterator[Message]:
        calls = message.tool_calls or ()
        text = _text(message.content or "", "") or message.refusal or ""
        yield AssistantMessage(text, stop="tool_calls" if calls else "end")
        for call in calls:
            self._names[call.id] = call.function.name
            yield InvocationMessage(ToolCall(call.id, call.function.name, call.function.arguments))


def _text(content: str | list[ChatTextPart] | list[ChatTextPart | ChatRefusalPart], between: str) -> str:
    if isinstance(content, str):
        return content
    return between.join(part.text if isinstance(part, ChatTextPart) else part.refusal for part in content)


def _content(content: str | list[Part], param: str) -> tuple[Content, ...]:
    if isinstance(content, str):
        return (Text(content),)
    if not content:
        refuse_field(param, "is empty; say something")
    return tuple(_part(part, f"{param}[{at}]") for at, part in enumerate(content))


def _part(part: Part, param: str) -> Content:
    match part:
        case ChatTextPart(text=text):
            return Text(text)
        case ChatImagePart(image_url=ChatImageAddress(url=url)):
            return media_at(url, f"{param}.image_url.url")
        case ChatSoundPart(input_audio=ChatSoundData(data=data, format=form)):
            kind = "audio/wav" if form == "wav" else "audio/mpeg"
            return Media(media_type=kind, data=bytes_of(data, f"{param}.input_audio.data"))
        case ChatFilePart(file=ChatFileData(file_data=str(data), filename=name)):
            return _file(data, name or "", f"{param}.file.file_data")
        case ChatFilePart():
            refuse_field(f"{param}.file", "send the file itself, as file_data; there are no uploads here")
    assert_never(part)


def _file(data: str, name: str, param: str) -> Media:
    """A file as a `data:` address, or as bare base64 whose kind its name tells."""
    if ":" in data[:100]:
        return media_at(data, param, name, "application/pdf")
    kind = mimetypes.guess_type(name)[0] or "application/pdf"
    return Media(media_type=kind, data=bytes_of(data, param), name=name)
