"""Messages as input items: what `GET /v1/responses/{id}/input_items` lists."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, assert_never

from handrail.core.messages import (
    AssistantMessage,
    Content,
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
from handrail.node.gateways.openai_responses.ids import item_id
from handrail.node.gateways.openai_responses.output_items import LABEL
from handrail.node.gateways.request_parsing import refuse_field

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
        for item in _items(message, results, ours):
            kind = {"function_call": "fc", "function_call_output": "fc", "mcp_call": "mcp"}.get(item["type"], "msg")
            found.append({"id": item_id(kind, response, f"in{at}"), "status": "completed", **item})
    return found


def _items(
    message: Message, results: Mapping[str, ResultMessage], ours: Callable[[str], bool]
) -> Iterator[dict[str, Any]]:
    match message:
        case UserMessage(content=content):
            yield {"type": "message", "role": "user", "content": [_part(part) for part in content]}
        case SupervisorMessage(text=text):
            yield {"type": "message", "role": "system", "content": [_part(Text(text))]}
        case DocumentMessage(text=text):
            yield {"type": "message", "role": "user", "content": [_part(Text(text))]}
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


def _part(part: Content) -> dict[str, Any]:
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
