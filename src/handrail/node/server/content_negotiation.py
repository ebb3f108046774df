"""What a client sends and what it wants, by the headers of HTTP."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

JSON = "application/json"
SSE = "text/event-stream"
ENVELOPE = "application/vnd.hearthnet.call+json"
"""A call with all of its fields, whatever the headers say."""


def require_json(headers: Headers, *taken: str) -> str:
    """The media type of the body, one of those that are taken.

    Raises:
        HTTPException: The body is something else, or is packed (415): what is unpacked may be of any size.
    """
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise HTTPException(415, "send the body as it is: Content-Encoding is not taken")
    media, _, parameters = headers.get("content-type", "").partition(";")
    found = media.strip().lower()
    if found not in taken:
        raise HTTPException(415, f"send the body as Content-Type: {' or '.join(taken)}")
    charset = parameters.lower().replace(" ", "").replace('"', "")
    if "charset=" in charset and "charset=utf-8" not in charset:
        raise HTTPException(415, "JSON is written in UTF-8")
    return found


def preferred_media_type(headers: Headers, *offered: str) -> str:
    """The form that the client likes best; of those it likes as much, the first.

    Raises:
        HTTPException: It takes none of them (406).
    """
    ranges = [_range(each) for value in headers.getlist("accept") for each in value.split(",") if each.strip()]
    if not ranges:
        return offered[0]
    best = max(offered, key=lambda media: _liking(media, ranges))
    if _liking(best, ranges) <= 0:
        raise HTTPException(406, f"this is answered as {' or '.join(offered)}")
    return best


def _range(text: str) -> tuple[str, float]:
    media, *parameters = (part.strip().lower() for part in text.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            return media, _quality(value.strip())
    return media, 1.0


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return quality if 0 <= quality <= 1 else 0.0


def _liking(media: str, ranges: list[tuple[str, float]]) -> float:
    """The quality of the narrowest range that holds it."""
    for holding in (media, f"{media.partition('/')[0]}/*", "*/*"):
        found = [quality for each, quality in ranges if each == holding]
        if found:
            return max(found)
    return 0.0
