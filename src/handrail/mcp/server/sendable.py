"""Text that cannot be sent, made so that it can: half of a surrogate pair has no form in UTF-8, and ends a server."""

from __future__ import annotations

from typing import Any

import msgspec


def sendable_text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def sendable_json(value: Any) -> Any:
    """The same JSON value; what in it cannot be sent is written as an escape. It costs little where nothing is."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _mended(value)
    return value


def _mended(value: Any) -> Any:
    match value:
        case str():
            return sendable_text(value)
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
    return value
