"""Small readings that several wires share: texts and token counts under known keys, and media that a model made."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from handrail.core.events import MediaAdded, ModelEvent, Notice
from handrail.core.messages import Media, Usage
from handrail.models.service_errors import masked_excerpt

_MOST_TOKENS = 2**53


def text_at(values: Any, *keys: str) -> str:
    """The first text that is not empty under one of these keys; empty if there is none."""
    if not isinstance(values, Mapping):
        return ""
    return next((found for key in keys if isinstance(found := values.get(key), str) and found), "")


def token_count_of(counts: Any, *keys: str) -> int:
    """Tokens, under the first of these keys that has a number. What cannot be one counts as none."""
    if isinstance(counts, dict):
        for key in keys:
            if isinstance(number := counts.get(key), int):
                return number if 0 <= number < _MOST_TOKENS else 0
    return 0


def usage_by_keys(counts: Any, keys: Mapping[str, tuple[str, ...]]) -> Usage:
    """The keys, for each field of a `Usage`, under which the service counts what belongs to it, summed up."""
    return Usage(**{field: sum(token_count_of(counts, key) for key in found) for field, found in keys.items()})


def media_from_base64(text: str, media_type: str, name: str = "") -> ModelEvent:
    """The media, or a notice where the text is not base64. The reply goes on either way."""
    try:
        return MediaAdded(media=Media(media_type=media_type, data=b64decode(text, validate=True), name=name))
    except ValueError:  # also letters outside of ASCII
        return Notice(text=f"the service sent {masked_excerpt(media_type)} that is not in base64; it cannot be shown")


def picture_from_url(url: str, unknown: str = "image/png") -> ModelEvent:
    """A picture by its address, which may be a data URL. `unknown` is its media type where the address names none."""
    if not url.startswith("data:"):
        return MediaAdded(media=Media(media_type=unknown, url=url))
    head, _, text = url.partition(",")
    return media_from_base64(text, head.removeprefix("data:").partition(";")[0] or unknown)
