"""Pictures, sounds and files that a model made, from the base64 or the address that a service sends."""

from __future__ import annotations

from base64 import b64decode

from handrail.core.events import MediaAdded, ModelEvent, Notice
from handrail.core.messages import Media
from handrail.models.service_errors import masked_excerpt


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
