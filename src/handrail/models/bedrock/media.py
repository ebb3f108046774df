"""Images, documents and videos as Converse takes them: a format by name, and bytes or a place in S3."""

from __future__ import annotations

import re
from typing import Any

from handrail.core.messages import Media
from handrail.models.profiles import Profile

_IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
_VIDEOS = {
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/x-matroska": "mkv",
    "video/webm": "webm",
    "video/mpeg": "mpeg",
}
_ODD = re.compile(r"[^A-Za-z0-9\-()\[\] ]+")
_SPACES = re.compile(r"  +")


def media_block(media: Media, profile: Profile, number: int) -> dict[str, Any] | None:
    """The block for it, None if this service or model does not take it. Bytes stay bytes: JSON has them in base64."""
    source = _source(media)
    kind = media.media_type
    if source is None:
        return None
    if kind in _IMAGES and profile.images:
        return {"image": {"format": _IMAGES[kind], "source": source}}
    if kind in _DOCUMENTS and profile.files:
        return {"document": {"format": _DOCUMENTS[kind], "name": _name(media, number), "source": source}}
    if kind in _VIDEOS and profile.images:
        return {"video": {"format": _VIDEOS[kind], "source": source}}
    return None


def _source(media: Media) -> dict[str, Any] | None:
    if media.data:
        return {"bytes": media.data}
    if media.url is not None and media.url.startswith("s3://"):
        return {"s3Location": {"uri": media.url}}
    return None


def _name(media: Media, number: int) -> str:
    """Few characters are taken, and no name twice."""
    plain = _SPACES.sub(" ", _ODD.sub(" ", media.name)).strip()
    return f"{plain[:180] or 'document'} {number}"
