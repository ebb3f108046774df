"""What a service adds to a reply, as `llm.chat` writes it, both ways: citations, media, calls that the service ran.

They go from the node of the model to whoever asks. They are not sent back with a conversation: what a service wants
back is in the artefacts, and the pictures of a long conversation would not fit in one request.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from handrail.core.events import CitationAdded, Event, MediaAdded, ModelEvent, Notice, ServiceCallMade
from handrail.core.messages import Citation, Media, ServiceCall

CITATION, MEDIA, SERVICE_CALL = "citation", "media", "service_call"
FIELDS = {CITATION: "citations", MEDIA: "media", SERVICE_CALL: "service_calls"}
"""By the event of a frame, where its data stands in the message of a whole response."""
LARGEST_MEDIA = 8 * 1024 * 1024
"""Bytes of a picture or a file. A frame of every transport has room for that in base64."""
LARGEST_JSON = 1024 * 1024
"""Bytes of what a service was asked, and of what it answered."""
LONGEST = 20_000
"""Characters of each text of a citation."""

Said = tuple[str, dict[str, Any]]


def extra_frames(event: Event) -> Iterator[Said]:
    """The frame of an event, if it has one. What is too large is left out, and a notice says so."""
    match event:
        case CitationAdded(citation=citation):
            fields: dict[str, Any] = msgspec.to_builtins(citation)
            yield CITATION, {key: each[:LONGEST] if isinstance(each, str) else each for key, each in fields.items()}
        case MediaAdded(media=media):
            yield from _media_frames(media)
        case ServiceCallMade(call=call):
            yield from _call_frames(call)


def _media_frames(media: Media) -> Iterator[Said]:
    about = {"media_type": media.media_type, **({"name": media.name} if media.name else {})}
    if media.data is not None and len(media.data) <= LARGEST_MEDIA:
        yield MEDIA, {**about, "data": base64.b64encode(media.data).decode()}
    elif media.data is not None:
        size = f"{len(media.data):,} bytes, and at most {LARGEST_MEDIA:,} go over the bus"
        yield "notice", {"text": f"a file that the model made was left out ({media.media_type}): it has {size}"}
    elif media.url:
        yield MEDIA, {**about, "url": media.url}


def _call_frames(call: ServiceCall) -> Iterator[Said]:
    said: dict[str, Any] = {"id": call.id, "name": call.name, **({"failed": True} if call.failed else {})}
    left_out: list[str] = []
    for name, value in (("arguments", call.arguments), ("result", call.result)):
        if value is None:
            continue
        if _size(value) > LARGEST_JSON:
            left_out.append(name)
        else:
            said[name] = value
    yield SERVICE_CALL, said
    for name in left_out:
        yield (
            "notice",
            {"text": f"left out as too large for the bus: the {name} of {call.name[:80]}, which the service ran"},
        )


def _size(value: Any) -> int:
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return LARGEST_JSON + 1  # it has no JSON form


def extra_event(event: str, data: Mapping[str, Any]) -> ModelEvent | None:
    """What a frame tells; None if it is none of these.

    Raises:
        msgspec.ValidationError: It cannot be read.
    """
    match event:
        case "citation":
            return CitationAdded(citation=msgspec.convert(data, Citation))
        case "media":
            media = msgspec.convert({**data, "type": "media"}, Media)
            if media.data is not None and len(media.data) > LARGEST_MEDIA:
                return Notice(text=f"the node sent a file of more than {LARGEST_MEDIA:,} bytes, which was not taken")
            return MediaAdded(media=media)
        case "service_call":
            return ServiceCallMade(call=msgspec.convert(data, ServiceCall))
    return None
