"""A Messages body as what is asked. Fields that cannot be honoured are refused by their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, assert_never

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
from handrail.node.gateways.anthropic import body
from handrail.node.gateways.anthropic.mcp_toolset import is_toolset, named_servers
from handrail.node.gateways.field_rules import FieldTable, check_fields
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
    stop_sequences_of,
)

_TOOLSET = {"name": "mcp_toolset", "input_schema": {}}
_CHOICES: dict[str, Literal["auto", "none", "required"]] = {"auto": "auto", "any": "required", "none": "none"}
SERVICE_BLOCKS = frozenset(
    {
        "advisor_tool_result",
        "bash_code_execution_tool_result",
        "code_execution_tool_result",
        "container_upload",
        "fallback",
        "mcp_tool_listing",
        "mcp_tool_result",
        "mcp_tool_use",
        "server_tool_use",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "web_fetch_tool_result",
        "web_search_tool_result",
    }
)
"""Blocks of an assistant's message that belong to Anthropic's own service: its searches, its code, its containers.

A client that spoke to that service before sends them back. Another model can do nothing with them: they are left out,
and a notice says so. What was compacted stays as the text that it was compacted to.
"""
_LEFT_OUT = {"type": "redacted_thinking"}
"""Takes the place of a block that is left out, so that the others keep theirs."""


def read_messages_request(data: bytes, headers: Mapping[str, str], most: int) -> GatewayRequest:
    """Reads a request to Messages.

    Raises:
        BusError: The request cannot be answered as it stands (`bad_request`), with the place that is wrong.
    """
    return _asked(read_json_object(data, most), headers, body.MESSAGES)


def read_count_request(data: bytes, headers: Mapping[str, str], most: int) -> GatewayRequest:
    """Reads a request whose tokens are to be counted, like `read_messages_request`: it says nothing of its answer.

    Raises:
        BusError: The request could not be answered as it stands (`bad_request`), with the place that is wrong.
    """
    return _asked(read_json_object(data, most), headers, body.COUNT, max_tokens=1)


def _asked(given: dict[str, Any], headers: Mapping[str, str], table: FieldTable, **assumed: Any) -> GatewayRequest:
    hints = check_fields(given, table)
    said, dropped = without_service_blocks(given.get("messages"))
    hints += dropped
    asked = convert_field(
        {**given, **assumed, "messages": said, "tools": _declared(given.get("tools"))}, body.MessagesBody
    )
    servers, more = named_servers(asked.mcp_servers or [], given)
    hints += more
    for at, tool in enumerate(given.get("tools") or ()):
        if not is_toolset(tool):
            hints += check_fields(tool, body.TOOL, f"tools[{at}].")
    hints += check_fields(given.get("output_config") or {}, body.OUTPUT_CONFIG, "output_config.")
    messages = tuple(_MessagesReader().read(asked))
    check_answered(messages)
    chosen = asked.tool_choice or body.MessagesToolChoice("auto")
    choice: ToolChoice = NamedTool(chosen.name or "") if chosen.type == "tool" else _CHOICES[chosen.type]
    tools = tuple(
        ToolOffer(tool.name, tool.description or "", tool.input_schema)
        for tool, said in zip(asked.tools or (), given.get("tools") or (), strict=True)
        if not is_toolset(said)
    )
    check_tools(tools, choice, "tools")
    return GatewayRequest(
        model=asked.model,
        messages=messages,
        settings=_settings(asked),
        tools=tools,
        choice=choice,
        stream=bool(asked.stream),
        usage=True,
        ours=extension_of(given, headers),
        mcp_servers=servers,
        ignored=hints,
    )


def _declared(tools: Any) -> Any:
    """The tools with something harmless in the place of each toolset, so that the others keep their places."""
    return [_TOOLSET if is_toolset(tool) else tool for tool in tools] if isinstance(tools, list) else tools


def _settings(asked: body.MessagesBody) -> ModelRequest:
    chosen, output = asked.tool_choice, asked.output_config
    return ModelRequest(
        messages=(),
        parallel=not (chosen and chosen.disable_parallel_tool_use),
        max_tokens=asked.max_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        stop=stop_sequences_of(asked.stop_sequences, "stop_sequences"),
        response_schema=output.format.schema if output and output.format else None,
    )


class _MessagesReader:
    """Messages in order: a result says only the id of its call, which came before."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def read(self, asked: body.MessagesBody) -> Iterator[Message]:
        if asked.system:
            yield SupervisorMessage(_joined(asked.system, "\n\n"))
        for at, message in enumerate(asked.messages):
            match message:
                case body.MessagesUserMessage(content=content):
                    yield from self._user(content, f"messages[{at}].content")
                case body.MessagesAssistantMessage(content=content):
                    yield from self._assistant(content)
                case body.MessagesSystemMessage(content=content):
                    yield SupervisorMessage(_joined(content, "\n\n"))
                case _:
                    assert_never(message)

    def _user(self, content: str | list[body.UserBlock], param: str) -> Iterator[Message]:
        if isinstance(content, str):
            yield UserMessage((Text(content),))
            return
        if not content:
            refuse_field(param, "is empty; say something")
        shown: list[Content] = []
        for at, block in enumerate(content):
            if not isinstance(block, body.MessagesToolResultBlock):
                shown += _shown(block, f"{param}[{at}]")
                continue
            if shown:
                yield UserMessage(tuple(shown))
                shown = []
            yield ResultMessage(self._result(block, f"{param}[{at}].content"))
        if shown:
            yield UserMessage(tuple(shown))

    def _result(self, block: body.MessagesToolResultBlock, param: str) -> ToolResult:
        content, id = block.content or "", block.tool_use_id
        parts: Iterable[Content] = (
            (Text(content),)
            if isinstance(content, str)
            else (each for at, part in enumerate(content) for each in _shown(part, f"{param}[{at}]"))
        )
        return result_of(id, self._names.get(id, ""), parts, param, "failed" if block.is_error else "ok")

    def _assistant(self, content: str | list[body.AssistantBlock]) -> Iterator[Message]:
        if isinstance(content, str):
            yield AssistantMessage(content)
            return
        calls = [block for block in content if isinstance(block, body.MessagesToolUseBlock)]
        text = "".join(block.text for block in content if isinstance(block, body.MessagesTextBlock))
        yield AssistantMessage(text, stop="tool_calls" if calls else "end")
        for call in calls:
            self._names[call.id] = call.name
            yield InvocationMessage(ToolCall(call.id, call.name, call.input))


def _joined(content: str | list[body.MessagesTextBlock], between: str) -> str:
    return content if isinstance(content, str) else between.join(block.text for block in content)


def _shown(block: body.Shown, param: str) -> Iterator[Content]:
    match block:
        case body.MessagesTextBlock(text=text):
            yield Text(text)
        case body.MessagesImageBlock(source=source):
            yield _media(source, f"{param}.source", "", "image/jpeg")
        case body.MessagesSearchResultBlock(source=where, title=title, content=parts):
            yield Text("\n".join((title, where, "", *(part.text for part in parts))))
        case body.MessagesDocumentBlock(source=source, title=title):
            yield from _document(source, title or "", f"{param}.source")
        case _:
            assert_never(block)


def _document(source: body.DocumentSource, title: str, param: str) -> Iterator[Content]:
    match source:
        case body.MessagesPlainTextSource(data=text) | body.MessagesContentSource(content=str(text)):
            yield Media(media_type="text/plain", data=text.encode(), name=title)
        case body.MessagesContentSource(content=list(parts)):
            if title:
                yield Text(title)
            for at, part in enumerate(parts):
                yield from _shown(part, f"{param}.content[{at}]")
        case body.MessagesInlineSource() | body.MessagesLinkedSource():
            yield _media(source, param, title, "application/pdf")


def _media(source: body.MessagesInlineSource | body.MessagesLinkedSource, param: str, name: str, kind: str) -> Media:
    if isinstance(source, body.MessagesLinkedSource):
        return media_at(source.url, f"{param}.url", name, kind)
    return Media(media_type=source.media_type, data=bytes_of(source.data, f"{param}.data"), name=name)


def without_service_blocks(messages: Any) -> tuple[Any, tuple[str, ...]]:
    """The messages of a body without such blocks, and the places of those that are left out."""
    if not isinstance(messages, list):
        return messages, ()
    dropped: list[str] = []
    return [_without(message, f"messages[{at}]", dropped) for at, message in enumerate(messages)], tuple(dropped)


def _without(message: Any, place: str, dropped: list[str]) -> Any:
    match message:
        case {"role": "assistant", "content": list(blocks)}:
            kept = [_block(block, f"{place}.content[{at}]", dropped) for at, block in enumerate(blocks)]
            return {**message, "content": kept}
    return message


def _block(block: Any, place: str, dropped: list[str]) -> Any:
    match block:
        case {"type": "compaction", "content": str(summary)}:
            return {"type": "text", "text": summary}
        case {"type": "compaction"}:
            return _LEFT_OUT
        case {"type": str(kind)} if kind in SERVICE_BLOCKS:
            dropped.append(f"{place} ({kind})")
            return _LEFT_OUT
    return block
