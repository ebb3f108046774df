"""One reply of a model, sent as it comes and held to what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any

from handrail.core.events import ReplyFinished
from handrail.core.ids import NewId
from handrail.core.messages import InvocationMessage, Message
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model, takes_tools
from handrail.models.reply_checks import ReplyChecker
from handrail.node.bus.request import RouteRequest
from handrail.node.chat.frames import FIELDS, CallIdNaming, ChatFrameWriter, done_data
from handrail.node.chat.messages import write_artefacts


async def send_reply(model: Model, asked: ModelRequest, request: RouteRequest, new_id: NewId) -> dict[str, Any]:
    """The response, after all of its frames. When the call is cancelled the model is, at once.

    Raises:
        ModelError: The model gave no usable reply.
    """
    naming, speaking = CallIdNaming(call_ids_of(asked.messages), new_id), ChatFrameWriter()
    watch = ReplyChecker(asked, takes_tools=takes_tools(model))
    text: list[str] = []
    calls: list[dict[str, Any]] = []
    extras: dict[str, list[dict[str, Any]]] = {}
    end = ReplyFinished(stop="end")
    async with aclosing(model.stream(asked)) as events:
        async for event in events:
            for allowed in watch.see(naming.named(event)):
                if isinstance(allowed, ReplyFinished):
                    end = allowed
                for name, data in speaking.frames(allowed):
                    match name:
                        case "token":
                            text.append(data["text"])
                        case "tool_call":
                            calls.append(data)
                        case _ if name in FIELDS:
                            extras.setdefault(FIELDS[name], []).append(data)
                    await request.send(name, data)
    watch.close()
    return reply_response("".join(text), calls, end, extras)


def reply_response(
    text: str,
    calls: list[dict[str, Any]],
    end: ReplyFinished,
    extras: Mapping[str, list[dict[str, Any]]] = MappingProxyType({}),
) -> dict[str, Any]:
    """`extras` are citations, media and calls of the service, by their fields."""
    message = {"role": "assistant", "content": text, **write_artefacts(end.artefacts), **extras}
    output = {"message": message, **({"tool_calls": calls} if calls else {})}
    return {"output": output, "meta": done_data(end)}


def call_ids_of(messages: tuple[Message, ...]) -> set[str]:
    """The ids of the calls that were made before."""
    return {message.id for message in messages if isinstance(message, InvocationMessage)}
