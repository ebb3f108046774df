"""A Messages body as what is asked. Fields that cannot be honoured are refused by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, assert_never

from handrail.core.calls import Attachment, ToolCall, ToolResult
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
from handrail.node.gateways.anthropic.body import (
    AssistantBlock,
    MessagesAssistantMessage,
    MessagesBody,
    MessagesContentSource,
    MessagesDocumentBlock,
    MessagesImageBlock,
    MessagesInlineSource,
    MessagesLinkedSource,
    MessagesPlainTextSource,
    MessagesSearchResultBlock,
    MessagesSystemMessage,
    MessagesTextBlock,
    MessagesToolChoice,
    MessagesToolResultBlock,
    MessagesToolUseBlock,
    MessagesUserMessage,
    Shown,
    UserBlock,
)
from handrail.node.gateways.anthropic.fields import COUNT, MESSAGES, OUTPUT_CONFIG, TOOL
from handrail.node.gateways.anthropic.mcp_toolset import is_toolset, named_servers
from handrail.node.gateways.anthropic.service_blocks import without_service_blocks
from handrail.node.gateways.field_rules import FieldTable, check_fields
from handrail.node.gateways.request import GatewayRequest
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

_TOOLSET = {"name": "mcp_toolset", "input_schema": {}}
_CHOICES: dict[str, Literal["auto", "none", "required"]] = {"auto": "auto", "any": "required", "none": "none"}


def read_messages_request(data: bytes, headers: Mapping[str, str], most: int) -> GatewayRequest:
    """
    Raises:
        BusError: The request cannot be answered as it stands (`bad_request`), with the place that is wrong.
    """
    return _asked(read_json_object(data, most), headers, MESSAGES)


def read_count_request(data: bytes, headers: Mapping[str, str], most: int) -> GatewayRequest:
    """As `read_messages_request`, of a request whose tokens are to be counted: it says nothing of its answer.

    Raises:
        BusError: The request could not be answered as it stands (`bad_request`), with the place that is wrong.
    """
    return _asked(read_json_object(data, most), headers, COUNT, max_tokens=1)


def _asked(given: dict[str, Any], headers: Mapping[str, str], table: FieldTable, **assumed: Any) -> GatewayRequest:
    hints = check_fields(given, table)
    said, dropped = without_service_blocks(given.get("messages"))
    hints += dropped
    body = convert_field({**given, **assumed, "messages": said, "tools": _declared(given.get("tools"))}, MessagesBody)
    servers, more = named_servers(body.mcp_servers or [], given)
    hints += more
    for at, tool in enumerate(given.get("tools") or ()):
        if not is_toolset(tool):
            hints += check_fields(tool, TOOL, f"tools[{at}].")
    hints += check_fields(given.get("output_config") or {}, OUTPUT_CONFIG, "output_config.")
    messages = tuple(_MessagesReader().read(body))
    check_answered(messages)
    choice = _choice(body.tool_choice)
    tools = tuple(
        ToolOffer(tool.name, tool.description or "", tool.input_schema)
        for tool, said in zip(body.tools or (), given.get("tools") or (), strict=True)
        if not is_toolset(said)
    )
    check_tools(tools, choice, "tools")
    return GatewayRequest(
        model=body.model,
        messages=messages,
        settings=_settings(body),
        tools=tools,
        choice=choice,
        stream=bool(body.stream),
        usage=True,
        ours=extension_of(given, headers),
        mcp_servers=servers,
        ignored=hints,
    )


def _declared(tools: Any) -> Any:
    """The tools with something harmless in the place of each toolset, so that the others keep their places."""
    return [_TOOLSET if is_toolset(tool) else tool for tool in tools] if isinstance(tools, list) else tools


def _settings(body: MessagesBody) -> ModelRequest:
    chosen, output = body.tool_choice, body.output_config
    return ModelRequest(
        messages=(),
        parallel=not (chosen and chosen.disable_parallel_tool_use),
        max_tokens=body.max_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        stop=stop_sequences_of(body.stop_sequences, "stop_sequences"),
        response_schema=output.format.schema if output and output.format else None,
    )


def _choice(choice: MessagesToolChoice | None) -> ToolChoice:
    if choice is None:
        return "auto"
    if choice.type == "tool":
        return NamedTool(choice.name or "")
    return _CHOICES[choice.type]


class _MessagesReader:
    """Messages in order: a result says only the id of its call, which came before."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def read(self, body: MessagesBody) -> Iterator[Message]:
        if body.system:
            yield SupervisorMessage(_joined(body.system, "\n\n"))
        for at, message in enumerate(body.messages):
            match message:
                case MessagesUserMessage(content=content):
                    yield from self._user(content, f"messages[{at}].content")
                case MessagesAssistantMessage(content=content):
                    yield from self._assistant(content)
                case MessagesSystemMessage(content=content):
                    yield SupervisorMessage(_joined(content, "\n\n"))
                case _:
                    assert_never(message)

    def _user(self, content: str | list[UserBlock], param: str) -> Iterator[Message]:
        if isinstance(content, str):
            yield UserMessage((Text(content),))
            return
        if not content:
            refuse_field(param, "is empty; say something")
        shown: list[Content] = []
        for at, block in enumerate(content):
            if not isinstance(block, MessagesToolResultBlock):
                shown += _shown(block, f"{param}[{at}]")
                continue
            if shown:
                yield UserMessage(tuple(shown))
                shown = []
            yield ResultMessage(self._result(block, f"{param}[{at}].content"))
        if shown:
            yield UserMessage(tuple(shown))

    def _result(self, block: MessagesToolResultBlock, param: str) -> ToolResult:
        content = block.content or ""
        attached: tuple[Attachment, ...] = ()
        if not isinstance(content, str):
            parts = [each for at, part in enumerate(content) for each in _shown(part, f"{param}[{at}]")]
            attached = tuple(attachment_of(part, param) for part in parts if isinstance(part, Media))
            content = "\n".join(part.text for part in parts if isinstance(part, Text))
        return ToolResult(
            block.tool_use_id,
            self._names.get(block.tool_use_id, ""),
            content,
            outcome="failed" if block.is_error else "ok",
            attachments=attached,
        )

    def _assistant(self, content: str | list[AssistantBlock]) -> Iterator[Message]:
        if isinstance(content, str):
            yield AssistantMessage(content)
            return
        calls = [block for block in content if isinstance(block, MessagesToolUseBlock)]
        text = "".join(block.text for block in content if isinstance(block, MessagesTextBlock))
        yield AssistantMessage(text, stop="tool_calls" if calls else "end")
        for call in calls:
            self._names[call.id] = call.name
            yield InvocationMessage(ToolCall(call.id, call.name, call.input))


def _joined(content: str | list[MessagesTextBlock], between: str) -> str:
    return content if isinstance(content, str) else between.join(block.text for block in content)


def _shown(block: Shown, param: str) -> Iterator[Content]:
    match block:
        case MessagesTextBlock(text=text):
            yield Text(text)
        case MessagesImageBlock(source=source):
            yield _media(source, f"{param}.source", "", "image/jpeg")
        case MessagesSearchResultBlock(source=where, title=title, content=parts):
            yield Text("\n".join((title, where, "", *(part.text for part in parts))))
        case MessagesDocumentBlock(source=source, title=title):
            yield from _document(source, title or "", f"{param}.source")
        case _:
            assert_never(block)


def _document(
    source: MessagesInlineSource | MessagesLinkedSource | MessagesPlainTextSource | MessagesContentSource,
    title: str,
    param: str,
) -> Iterator[Content]:
    match source:
        case MessagesPlainTextSource(data=text) | MessagesContentSource(content=str(text)):
            yield Media(media_type="text/plain", data=text.encode(), name=title)
        case MessagesContentSource(content=list(parts)):
            if title:
                yield Text(title)
            for at, part in enumerate(parts):
                yield from _shown(part, f"{param}.content[{at}]")
        case MessagesInlineSource() | MessagesLinkedSource():
            yield _media(source, param, title, "application/pdf")


def _media(source: MessagesInlineSource | MessagesLinkedSource, param: str, name: str, kind: str) -> Media:
    if isinstance(source, MessagesLinkedSource):
        return media_at(source.url, f"{param}.url", name, kind)
    return Media(media_type=source.media_type, data=bytes_of(source.data, f"{param}.data"), name=name)
