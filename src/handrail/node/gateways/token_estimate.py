"""How many tokens a request has, about, where the model's service cannot be asked.

Every model cuts text in its own way. The estimate is made to be rather too high than too low: a client uses it to
stay within a model's context.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec

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
from handrail.core.model_request import ModelRequest
from handrail.models.history import arguments_text

_BYTES = 3.5
"""Of UTF-8 for one token: about four letters of English, and a little more than one Chinese character."""
_FRAME = 4
"""Tokens around each message and each tool."""
_IMAGE = 1_600
"""Tokens of an image, a sound or a PDF file: what a large image costs."""


def estimated_tokens_of_text(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / _BYTES)


def estimated_tokens(request: ModelRequest) -> int:
    """Of its messages, tools and the form of its answer together; at least 1."""
    said = (_FRAME + sum(_of_content(_contents(message))) for message in request.messages)
    tools = (
        _FRAME + estimated_tokens_of_text(f"{tool.name}{tool.description}{_json(tool.input_schema)}")
        for tool in request.tools
        if not tool.deferred
    )
    form = 0 if request.response_schema is None else estimated_tokens_of_text(_json(request.response_schema))
    return max(1, sum(said) + sum(tools) + form)


def _contents(message: Message) -> Iterable[Content]:
    match message:
        case UserMessage(content=content):
            return content
        case SupervisorMessage(text=text) | AssistantMessage(text=text):
            return (Text(text),)
        case InvocationMessage(call=call):
            return (Text(f"{call.name}{arguments_text(call)}"),)
        case ResultMessage(result=result):
            attached = (Media(media_type=each.media_type, data=each.data) for each in result.attachments)
            return (Text(result.text), *attached)
    return ()


def _of_content(content: Iterable[Content]) -> Iterator[int]:
    for each in content:
        match each:
            case Text(text=text):
                yield estimated_tokens_of_text(text)
            case Media(media_type=kind, data=bytes(data)) if kind.startswith("text/"):
                yield math.ceil(len(data) / _BYTES)
            case Media():
                yield _IMAGE


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
