"""What cannot cross to another process: all that is not JSON."""

from __future__ import annotations

import math
from typing import Any


def first_non_json(value: Any, where: str) -> str | None:
    """The place and type of the first thing in a value that is not JSON; None if it all is."""
    match value:
        case None | bool() | int():
            return None
        case str():
            return None if value.isascii() or _encodable(value) else f"{where} is text that is not Unicode"
        case float():
            return None if math.isfinite(value) else f"{where} is {value}"
        case list() | tuple():
            found = (first_non_json(item, f"{where}[{index}]") for index, item in enumerate(value))
            return next(filter(None, found), None)
        case dict():
            if (odd := next((key for key in value if not isinstance(key, str)), None)) is not None:
                return f"{where} has the key {odd!r}, which is not text"
            found = (first_non_json(item, f"{where}.{key}") for key, item in value.items())
            return next(filter(None, found), None)
    return f"{where} is a {type(value).__name__}"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
