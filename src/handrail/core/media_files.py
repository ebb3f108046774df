"""Names under which files of unknown origin are saved: never a path, and with an ending that fits. Pure."""

from __future__ import annotations

import mimetypes
import re

_LONGEST = 100
_MOST_BYTES = 200
"""Of a name in UTF-8: file systems take 255, and a number may be added."""
_UNFIT = re.compile(r'[^\w .()+,=@-]+|[/\\:*?"<>|]+')
_ENDINGS = {"image/jpeg": ".jpg", "text/plain": ".txt", "image/webp": ".webp"}
"""Where the usual one is not the one that the platform knows first, or it may know none."""


def safe_media_name(name: str, media_type: str, fallback: str = "file") -> str:
    """The last part of a name without anything that a file system or a shell could misread."""
    last = re.split(r"[/\\]", name)[-1]
    base = " ".join(_UNFIT.sub("_", last).split()).strip(". -")
    base = _short(base).lstrip(". -") or fallback
    kind = media_type.partition(";")[0].strip().lower()
    if "." in base.strip("."):
        return base
    return base + (_ENDINGS.get(kind) or mimetypes.guess_extension(kind) or "")


def _short(name: str) -> str:
    """The end of a name, which has its ending."""
    return name[-_LONGEST:].encode()[-_MOST_BYTES:].decode(errors="ignore")
