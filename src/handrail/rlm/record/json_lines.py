"""Any value as a line of JSON that people may keep: without secrets, and never longer than it may be."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

import msgspec

from handrail.core.jsontext import MAX_DEPTH
from handrail.core.redact import MASK, Secret, redact_text

LINE_BYTES = 4 * 2**20
TEXT_CHARS = 100_000
"""The most characters of one text, before the line is looked at as a whole."""
ITEMS = 10_000
"""The most items of one list or object, before the line is looked at as a whole."""
_LEAST = 16
_AROUND = 4_096
"""Characters beyond a cut that are looked at for secrets: half of one is still one."""
_SECRET_KEY = re.compile(
    r"api[_-]?key|(?:^|[_-])key$|secret|passw(?:or)?d|passphrase|authorization|credential|cookie|(?:^|[_-])(?:token|auth)$",
    re.IGNORECASE,
)


def line_of(
    entry: Mapping[str, Any], most: int = LINE_BYTES, *, settings: bool = False
) -> tuple[dict[str, Any], bytes]:
    """The entry as it may be kept, and as a line with its end. Texts and lists give way until it fits.

    Of `settings` whatever goes by the name of a key or a password is masked, whatever it looks like.
    """
    text, items = _about(entry, most)
    while True:
        showing = _JsonReducer(text, items, settings)
        kept = showing.object(dict(entry), 0)
        if showing.left_out:
            kept["left_out"] = showing.left_out
        line = msgspec.json.encode(kept) + b"\n"
        if len(line) <= most or (text <= _LEAST and items <= 1):
            return kept, line
        shorter = max(len(line) // most, 2)
        text, items = max(text // shorter, _LEAST), max(items // 2, 1)


def _about(entry: Mapping[str, Any], most: int) -> tuple[int, int]:
    """How much of a text and of a list may stay. To look for secrets takes long, and is not done to find this out."""
    text, items = min(TEXT_CHARS, most), min(ITEMS, most)
    while _size(entry, text, items, 0) > most and (text > _LEAST or items > 1):
        text, items = max(text // 4, _LEAST), max(items // 4, 1)
    return text, items


def _size(value: Any, text: int, items: int, depth: int) -> int:
    """Bytes of its JSON, at the least."""
    match value:
        case str():
            return min(len(value), text)
        case dict() if depth < MAX_DEPTH:
            shown = islice(value.items(), max(items, _LEAST))
            return sum(len(str(key)) + _size(item, text, items, depth + 1) for key, item in shown)
        case list() | tuple() if depth < MAX_DEPTH:
            return sum(_size(item, text, items, depth + 1) for item in value[:items])
    return 1


class _JsonReducer:
    """Values as JSON: what is none as its `repr`, and so many characters of a text and items of a list at most."""

    def __init__(self, text: int, items: int, settings: bool) -> None:
        self._text = text
        self._items = items
        self._settings = settings
        self.left_out = 0
        """Items of lists and objects."""

    def value(self, value: Any, depth: int) -> Any:
        match value:
            case None | bool():
                return value
            case int():
                return value if -(2**63) <= value < 2**64 else cut(hex(value), self._text)
            case float():
                return value if math.isfinite(value) else repr(value)
            case Secret():
                return MASK
            case str():
                return cut(value, self._text)
            case dict() | list() | tuple() if depth >= MAX_DEPTH:
                return "(nested too deeply to be shown)"
            case dict():
                return self.object(value, depth)
            case list() | tuple():
                self.left_out += max(len(value) - self._items, 0)
                return [self.value(item, depth + 1) for item in value[: self._items]]
        return cut(_named(value), self._text)

    def object(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        most = max(self._items, _LEAST)  # the fields of the form itself stay
        self.left_out += max(len(value) - most, 0)
        found = {}
        for key, item in islice(value.items(), most):
            name = cut(str(key), max(self._text, 64))
            is_secret = self._settings and item and _SECRET_KEY.search(name)
            found[name] = MASK if is_secret else self.value(item, depth + 1)
        return found


def cut(text: str, most: int) -> str:
    """A text of about so many characters: its beginning and its end, and how much is missing. Secrets are masked."""
    if len(text) <= most:
        return redact_text(_encodable(text))
    head, tail = most - most // 2, most // 2
    first = redact_text(_encodable(text[: head + _AROUND]))[:head]
    last = redact_text(_encodable(text[-(tail + _AROUND) :]))[-tail:]
    return f"{first} […{len(text) - most} characters left out…] {last}"


def _encodable(text: str) -> str:
    """The text with something readable for what no file can hold: halves of surrogate pairs."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _named(value: Any) -> str:
    name = getattr(value, "__name__", None)
    if isinstance(name, str):
        return f"<{type(value).__name__} {name!r}>"
    try:
        return repr(value)
    except Exception:  # whatever it is, its `repr` is a stranger's code
        return f"<{type(value).__name__}>"
