"""Small translations that several wires share: attachments, names, turns, tokens, the caller's own fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from handrail.core.calls import Attachment
from handrail.core.errors import UsageError
from handrail.core.messages import Media
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.codec import EncodedList
from handrail.models.history import AssistantTurn, Turn
from handrail.models.identity_cache import cached_by_identity
from handrail.models.tool_names import NameMap, NameRule


def as_media(attachment: Attachment) -> Media:
    return Media(media_type=attachment.media_type, data=attachment.data, name=attachment.name)


def has_media_source(media: Media) -> bool:
    """Whether there is anything to show: its bytes, or where they are."""
    return media.data is not None or media.url is not None


def describe_media(media: Media, missed: list[str]) -> str:
    """What a model reads in place of a file or an image that its service does not take: its text, or what it is."""
    if text := text_of_media(media):
        return text
    missed.append(f"{media.name or 'media'}: this model does not take {media.media_type}; it is told of it in words")
    what = f"{media.name} ({media.media_type})" if media.name else media.media_type
    if media.url is not None:
        return f"[{what}: {media.url}]"
    return f"[{what}, {len(media.data or b'')} bytes, not shown: this service does not take it]"


def text_of_media(media: Media) -> str | None:
    """The text of a text file, None if it is none."""
    if media.data is None or not media.media_type.startswith(("text/", "application/json")):
        return None
    return media.data.decode(errors="replace")


@cached_by_identity
def names_of(tools: tuple[ToolOffer, ...], rule: NameRule) -> NameMap:
    """The names of the tools on offer. Those of tools that are gone, in a history, need no place in it."""
    return NameMap.of((offer.name for offer in tools), rule)


def encode_list(items: list[dict[str, Any]]) -> EncodedList:
    """A list that is the same in many requests, with its JSON; without, if it has none, as the request will say."""
    try:
        return EncodedList(items, (msgspec.json.encode(items)[1:-1],))
    except (TypeError, ValueError, RecursionError):
        return EncodedList(items, ())


def ids_of(history: Sequence[Turn], rule: NameRule) -> NameMap:
    """Ids of past calls may come from another service, with characters that this one refuses."""
    replies = (turn for turn in history if isinstance(turn, AssistantTurn))
    return NameMap.of((message.id for reply in replies for message in reply.calls), rule)


def named_settings(request: ModelRequest, names: Mapping[str, str]) -> dict[str, Any]:
    """The settings that a request has, by the names of their fields on the wire and in that order."""
    found = {key: getattr(request, name) for name, key in names.items()}
    if request.stop and "stop" in names:
        found[names["stop"]] = list(request.stop)
    return {key: value for key, value in found.items() if value is not None and value != ()}


def with_builtin(own: EncodedList | None, builtin: tuple[dict[str, Any], ...]) -> EncodedList | None:
    """The tools of the service before the caller's own, in one list; None if there are neither."""
    if not builtin:
        return own
    return _joined(own, builtin)


@cached_by_identity
def _joined(own: EncodedList | None, builtin: tuple[dict[str, Any], ...]) -> EncodedList:
    return encode_list([*builtin, *(() if own is None else own.items)])


def with_extra(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the caller's own fields; an object joins an object, anything else replaces.

    Raises:
        UsageError: They have tools, which would replace those on offer.
    """
    if not extra:
        return body
    if "tools" in extra or (isinstance(config := extra.get("toolConfig"), Mapping) and "tools" in config):
        raise UsageError(
            "extra has 'tools', which would replace the tools on offer;"
            " give tools that the service runs itself as builtin=[...]"
        )
    return merge_fields(body, extra)


def merge_fields(body: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Merges the fields of one object into another: an object joins an object, anything else replaces."""
    result = dict(body)
    for key, value in extra.items():
        mine = result.get(key)
        result[key] = merge_fields(mine, value) if isinstance(mine, dict) and isinstance(value, Mapping) else value
    return result
