"""A JSON value as a person reads and changes it: exactly. Pure.

Every number has the digits that it has (a browser would round some of them), and every letter that shows nothing is
written as an escape, as is one of another alphabet in the middle of a Latin word, where it looks like one of those.
What is read back is checked as strictly as what a model writes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from handrail.core.errors import UsageError
from handrail.core.jsontext import JSONTextError, kind_of, parse
from handrail.core.safe_text import printable

_LOOKED_AT = re.compile("[^ -~\n]")
_FOREIGN = "\u0370-\u03ff\u0400-\u058f\u13a0-\u13ff"
"""Greek, Cyrillic, Armenian, Cherokee: alphabets with letters that look Latin."""
_MIXED = re.compile(f"[{_FOREIGN}]+(?=[A-Za-z])|(?<=[A-Za-z])(?<!\\\\[bfnrt])[{_FOREIGN}]+")


def exact_json(value: Any, indent: int | None = 2) -> str:
    """JSON that reads back as the same value, in which no letter can hide, deceive or steer a terminal."""
    written = json.dumps(value, indent=indent, ensure_ascii=False)
    if written.isascii():
        return written
    return _LOOKED_AT.sub(_seen, _MIXED.sub(lambda found: json.dumps(found[0])[1:-1], written))


def read_edited_object(text: str) -> dict[str, Any]:
    """What a person wrote.

    Raises:
        UsageError: It is no JSON object, names a key twice, or goes wrong elsewhere; it says where.
    """
    try:
        found = parse(text)
    except (JSONTextError, RecursionError) as error:
        raise UsageError(f"this is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f'write an object, as {{"name": "value"}}; this is {kind_of(found)}')
    return found


def _seen(found: re.Match[str]) -> str:
    letter = found[0]
    # A space that is none of the keyboard's is not printable, and looks like one.
    return letter if letter.isprintable() and printable(letter) == letter else json.dumps(letter)[1:-1]
