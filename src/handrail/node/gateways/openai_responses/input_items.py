"""Input items as messages, and messages as input items, as `GET /v1/responses/{id}/input_items` lists them.

Items that are only named, or lack their output, are looked up in earlier answers.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import BusError
from handrail.core.messages import (
    AssistantMessage,
    Content,
    Conversation,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.models.history import arguments_text
from handrail.node.gateways.openai.body import ChatRefusalPart, ChatSoundData, ChatSoundPart
from handrail.node.gateways.openai_responses.body import (
    ITEMS,
    FunctionCallItem,
    FunctionOutputItem,
    IgnoredItem,
    Item,
    ItemReference,
    McpCallItem,
    MessageItem,
    Part,
    ResponsesGeneratedImageItem,
    ResponsesInputFile,
    ResponsesInputImage,
    ResponsesInputText,
    ResponsesOutputText,
)
from handrail.node.gateways.openai_responses.ids import is_unrecorded, item_id, response_id_of_item
from handrail.node.gateways.openai_responses.output_items import LABEL
from handrail.node.gateways.request import EarlierAnswer
from handrail.node.gateways.request_parsing import bytes_of, convert_field, media_at, refuse_field, result_of, sound_of
from handrail.run.history import unanswered_calls

Earlier = Mapping[str, EarlierAnswer]
"""Earlier responses by their ids."""
_NO_RESULT = "this call has no result: it was not run, or not to its end"
_UNKNOWN_RESULT = "(the result of this call is no longer known)"


def typed_input_items(items: Sequence[Mapping[str, Any]], param: str = "input") -> list[Item]:
    """Reads each item as what its type says.

    Raises:
        BusError: An item is of another form, or of a type that cannot be read here.
    """
    return [_typed(item, f"{param}[{at}]") for at, item in enumerate(items)]


def _typed(item: Mapping[str, Any], param: str) -> Item:
    kind = item.get("type") or ("message" if "role" in item else "item_reference")
    form = ITEMS.get(kind) if isinstance(kind, str) else None
    if form is None:
        refuse_field(f"{param}.type", f"items of the type {str(kind)[:40]!r} are not supported here; leave them out")
    return convert_field(item, form, param)


def responses_named(items: Sequence[Item]) -> Iterator[str]:
    """The ids of earlier responses whose items are needed to read these."""
    for item in items:
        if isinstance(item, ItemReference | McpCallItem) and (found := response_id_of_item(item.id)) is not None:
            yield found


def generated_image_paths(items: Sequence[Item]) -> tuple[str, ...]:
    """The places of pictures that a model made, which have no effect."""
    return tuple(
        f"input[{at}]"
        for at, item in enumerate(items)
        if isinstance(item, ResponsesGeneratedImageItem)
        or (isinstance(item, ItemReference) and item.id.startswith("ig_"))
    )


class ItemReader:
    """Items in order: an output says only the id of its call, which came before."""

    def __init__(self, earlier: Earlier, before: tuple[Message, ...], handed: Container[str] = ()) -> None:
        """`handed` are the ids of calls that the client was handed, among those without a result before."""
        self._earlier = earlier
        open_calls = unanswered_calls(Conversation(before))
        self._calls_of_the_node = {each.id for each in open_calls if each.id not in handed}
        self._messages: list[Message] = list(before)
        self._names = {each.id: each.call.name for each in before if isinstance(each, InvocationMessage)}

    def read(self, items: Sequence[Item]) -> tuple[Message, ...]:
        """The messages before, and those that these items stand for.

        Raises:
            BusError: An item has content that its role cannot have, or names an item that is not known.
        """
        for at, item in enumerate(items):
            self._take(item, f"input[{at}]")
        return tuple(self._messages)

    def _take(self, item: Item, param: str) -> None:
        match item:
            case MessageItem():
                self._messages.append(_message(item, f"{param}.content"))
            case FunctionCallItem(call_id=id, name=name, arguments=arguments):
                self._call(ToolCall(id, name, arguments))
            case FunctionOutputItem():
                self._messages.append(ResultMessage(self._result(item, param)))
            case McpCallItem():
                self._node_call(item)
            case ItemReference(id=id):
                self._refer(id, f"{param}.id")
            case IgnoredItem() | ResponsesGeneratedImageItem():
                pass
            case _:
                assert_never(item)

    def _call(self, call: ToolCall) -> None:
        """Add a call to the reply that is being read, or begin one for it."""
        match self._messages[-1] if self._messages else None:
            case AssistantMessage() as reply:
                self._messages[-1] = replace(reply, stop="tool_calls")
            case InvocationMessage():
                pass
            case _:
                self._messages.append(AssistantMessage("", stop="tool_calls"))
        self._names[call.id] = call.name
        self._messages.append(InvocationMessage(call))

    def _result(self, item: FunctionOutputItem, param: str) -> ToolResult:
        if item.call_id in self._calls_of_the_node:
            why = "this is a call of the node, and only the node gives its result; take up its run with handrail.run"
            refuse_field(f"{param}.call_id", why)
        name = self._names.get(item.call_id, "")
        if isinstance(item.output, str):
            return ToolResult(item.call_id, name, item.output)
        param = f"{param}.output"
        parts = (_content(part, f"{param}[{at}]") for at, part in enumerate(item.output))
        return result_of(item.call_id, name, parts, param)

    def _node_call(self, item: McpCallItem) -> None:
        item = self._shown(item)
        self._call(ToolCall(item.id, item.name, item.arguments))
        failed = item.error is not None
        words = _words_of(item.error) if failed else item.output
        result = ToolResult(item.id, item.name, words or "", outcome="failed" if failed else "ok")
        self._messages.append(ResultMessage(result))

    def _shown(self, item: McpCallItem) -> McpCallItem:
        """The call as its response showed it, where that is known: what the client says of it does not count then."""
        earlier = self._earlier.get(response_id_of_item(item.id) or "")
        known = earlier and earlier.items.get(item.id)
        found = convert_field(known, McpCallItem) if known else item
        if found.output is not None or found.error is not None:
            return found
        return replace(found, error=_NO_RESULT) if known else replace(found, output=_UNKNOWN_RESULT)

    def _refer(self, id: str, param: str) -> None:
        earlier = self._earlier.get(response_id_of_item(id) or "")
        item = earlier and earlier.items.get(id)
        if item:
            self._take(_typed(item, param), param)
        elif earlier is None or not is_unrecorded(id):
            raise BusError("not_found", f"there is no item {id[:80]!r}; send the item itself", param=param)


def _message(item: MessageItem, param: str) -> Message:
    if not item.content and item.role == "user":
        refuse_field(param, "is empty; say something")
    match item.role:
        case "assistant":
            return AssistantMessage(_text(item.content, "", param))
        case "system" | "developer":
            return SupervisorMessage(_text(item.content, "\n\n", param))
        case "user":
            if isinstance(item.content, str):
                return UserMessage((Text(item.content),))
            return UserMessage(tuple(_content(part, f"{param}[{at}]") for at, part in enumerate(item.content)))
    assert_never(item.role)


def _text(content: str | list[Part], between: str, param: str) -> str:
    if isinstance(content, str):
        return content
    parts = [_content(part, f"{param}[{at}]") for at, part in enumerate(content)]
    for at, part in enumerate(parts):
        if not isinstance(part, Text):
            refuse_field(f"{param}[{at}].type", "only a user's message can have anything but text")
    return between.join(part.text for part in parts if isinstance(part, Text))


def _content(part: Part, param: str) -> Content:
    match part:
        case ResponsesInputText(text=text) | ResponsesOutputText(text=text) | ChatRefusalPart(refusal=text):
            return Text(text)
        case ResponsesInputImage(image_url=str(url)):
            return media_at(url, f"{param}.image_url")
        case ResponsesInputFile(file_data=str(data), filename=name):
            return _file(data, f"{param}.file_data", name or "")
        case ResponsesInputFile(file_url=str(url), filename=name):
            return media_at(url, f"{param}.file_url", name or "", "application/pdf")
        case ChatSoundPart(input_audio=ChatSoundData(data=data, format=form)):
            return sound_of(data, form, f"{param}.input_audio.data")
        case ResponsesInputImage() | ResponsesInputFile():
            refuse_field(f"{param}.file_id", "there are no uploads here; send the file itself, or its address")
    assert_never(part)


def _file(data: str, param: str, name: str) -> Media:
    """A file as a data URL, or as base64 alone."""
    if data.startswith("data:"):
        return media_at(data, param, name, "application/pdf")
    return Media(media_type="application/pdf", data=bytes_of(data, param), name=name)


def _words_of(error: Any) -> str:
    """What an error of a call says, in any of the forms that clients send back."""
    match error:
        case str():
            return error
        case {"content": [{"text": str(text)}, *_]} | {"message": str(text)} | {"content": str(text)}:
            return text
    return "the call failed"


# ── messages as items ────────────────────────────────────────────────────────────

_MOST = 100


def input_items_page(items: Sequence[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """The items that a query asks for, newest first unless it says otherwise.

    Raises:
        BusError: The query is of another form.
    """
    order, limit, after = query.get("order", "desc"), query.get("limit", "20"), query.get("after")
    if order not in ("asc", "desc"):
        refuse_field("order", "expected asc or desc")
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:6]) <= _MOST:
        refuse_field("limit", f"expected a number from 1 to {_MOST}")
    found = list(items) if order == "asc" else list(reversed(items))
    if after is not None:
        ids = [item["id"] for item in found]
        if after not in ids:
            refuse_field("after", "there is no such item")
        found = found[ids.index(after) + 1 :]
    page = found[: int(limit)]
    ends = {"first_id": page[0]["id"] if page else None, "last_id": page[-1]["id"] if page else None}
    return {"object": "list", "data": page, **ends, "has_more": len(page) < len(found)}


def input_items(response: str, messages: Sequence[Message], ours: Callable[[str], bool]) -> list[dict[str, Any]]:
    """`ours` tells tools of the node, which were not the client's to run, by their names."""
    results = {each.invocation_id: each for each in messages if isinstance(each, ResultMessage)}
    found: list[dict[str, Any]] = []
    for at, message in enumerate(messages):
        for item in _items_of(message, results, ours):
            kind = {"function_call": "fc", "function_call_output": "fc", "mcp_call": "mcp"}.get(item["type"], "msg")
            found.append({"id": item_id(kind, response, f"in{at}"), "status": "completed", **item})
    return found


def _items_of(
    message: Message, results: Mapping[str, ResultMessage], ours: Callable[[str], bool]
) -> Iterator[dict[str, Any]]:
    match message:
        case UserMessage(content=content):
            yield {"type": "message", "role": "user", "content": [_input_part(part) for part in content]}
        case SupervisorMessage(text=text):
            yield {"type": "message", "role": "system", "content": [_input_part(Text(text))]}
        case DocumentMessage(text=text):
            yield {"type": "message", "role": "user", "content": [_input_part(Text(text))]}
        case AssistantMessage(text=text) if text:
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            yield {"type": "message", "role": "assistant", "content": [part]}
        case AssistantMessage():
            return
        case InvocationMessage(call=call) if ours(call.name):
            answer = results.get(call.id)
            output = None if answer is None else answer.result.text
            said = {"name": call.name, "arguments": arguments_text(call), "server_label": LABEL, "output": output}
            yield {"type": "mcp_call", **said, "error": None}
        case InvocationMessage(call=call):
            yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments_text(call)}
        case ResultMessage(result=result):
            if not ours(result.name):
                yield {"type": "function_call_output", "call_id": result.tool_call_id, "output": result.text}
        case _:
            assert_never(message)


def _input_part(part: Content) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "input_text", "text": text}
        case Media(media_type=kind) if kind.startswith("image/"):
            return {"type": "input_image", "image_url": _address(part), "detail": "auto"}
        case Media(url=str(url)):
            return {"type": "input_file", "file_url": url, "filename": part.name or None}
        case Media():
            return {"type": "input_file", "file_data": _address(part), "filename": part.name or "file"}
    assert_never(part)


def _address(media: Media) -> str:
    if media.url is not None:
        return media.url
    return f"data:{media.media_type};base64,{base64.b64encode(media.data or b'').decode()}"
