"""How many tokens a request has, the node's tools included: `POST /v1/messages/count_tokens`, and an estimate.

The model's service counts them where it can. Else they are estimated, and a notice says so. Every model cuts text in
its own way: the estimate is rather too high than too low, since a client uses it to stay within a model's context.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from handrail.core.errors import RequestRefused
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
from handrail.core.ports import Model, count_tokens
from handrail.models.history import arguments_text

COUNT_PATH = "/v1/messages/count_tokens"
ESTIMATED = "input_tokens is an estimate: the model's service does not count tokens"
_NO_COUNT = frozenset({404, 405, 501})
"""The answer by which a service that speaks the API of a counting one says that it does not count."""
_BYTES = 3.5
"""The bytes of UTF-8 for one token: about four letters of English, and a little more than one Chinese character."""
_FRAME = 4
"""Tokens around each message and each tool."""
_IMAGE = 1_600
"""Tokens of an image, a sound or a PDF file: what a large image costs."""


async def token_count_answer(model: Model, request: ModelRequest, hints: tuple[str, ...]) -> dict[str, Any]:
    """The answer to a request for the count of its tokens.

    Raises:
        ModelError: The service failed, or refused the request.
    """
    notices = [f"{name} has no effect here" for name in hints]
    counted = await _counted(model, request)
    if counted is None:
        notices.append(ESTIMATED)
    said = {"handrail": {"notices": notices}} if notices else {}
    return {"input_tokens": estimated_tokens(request) if counted is None else counted, **said}


async def _counted(model: Model, request: ModelRequest) -> int | None:
    try:
        return await count_tokens(model, request)
    except RequestRefused as error:
        if error.status not in _NO_COUNT:
            raise
        return None


def estimated_tokens_of_text(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / _BYTES)


def estimated_tokens(request: ModelRequest) -> int:
    """An estimate for the messages, the tools and the form of the answer together; at least 1."""
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
