"""Small translations that several wires share: attachments, names, turns, the caller's own fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from handrail.core.calls import Attachment
from handrail.core.messages import InvocationMessage, Media, ResultMessage
from handrail.core.model import ModelRequest, NamedTool
from handrail.providers.history import AssistantTurn, Turn
from handrail.providers.names import NameMap, NameRule

OPENING = "(Begin.)"
"""Said for the user where nobody has spoken but the system, and a service wants the user to."""


def as_media(attachment: Attachment) -> Media:
    return Media(media_type=attachment.media_type, data=attachment.data, name=attachment.name)


def described(media: Media) -> str:
    """What a model is told of something that its service does not take."""
    what = f"{media.name} ({media.media_type})" if media.name else media.media_type
    if media.url is not None:
        return f"[{what}: {media.url}]"
    return f"[{what}, {len(media.data or b'')} bytes, not shown: this service does not take it]"


def readable(media: Media) -> str | None:
    """The text of a text file, None if it is none."""
    if media.data is None or not media.media_type.startswith(("text/", "application/json")):
        return None
    return media.data.decode(errors="replace")


def names_of(request: ModelRequest, rule: NameRule) -> NameMap:
    """Every tool name that a request mentions, offered or past."""
    names = [offer.name for offer in request.tools]
    names += [message.call.name for message in request.messages if isinstance(message, InvocationMessage)]
    names += [message.result.name for message in request.messages if isinstance(message, ResultMessage)]
    if isinstance(request.tool_choice, NamedTool):
        names.append(request.tool_choice.name)
    return NameMap.of(dict.fromkeys(names), rule)


def ids_of(history: Sequence[Turn], rule: NameRule) -> NameMap:
    """Ids of past calls may come from another service, with characters that this one refuses."""
    replies = (turn for turn in history if isinstance(turn, AssistantTurn))
    return NameMap.of((message.id for reply in replies for message in reply.calls), rule)


def add_turn(messages: list[dict[str, Any]], role: str, key: str, parts: Sequence[dict[str, Any]]) -> None:
    """Append to a conversation in which the roles take turns."""
    if not parts:
        return
    if messages and messages[-1]["role"] == role:
        messages[-1][key].extend(parts)
    else:
        messages.append({"role": role, key: list(parts)})


def merged(body: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the caller's own fields; an object joins an object, anything else replaces."""
    result = dict(body)
    for key, value in extra.items():
        mine = result.get(key)
        result[key] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, Mapping) else value
    return result
