"""Patterns that a stranger may have written: matched in linear time, or not at all.

Python's own `re` can be made to run for ever by 30 characters. The engine of the
schema validator cannot, so it is asked here too.
"""

from __future__ import annotations

import re
from functools import lru_cache

import jsonschema_rs

from handrail.core.errors import ToolError

_SIZE = 4 * 1024 * 1024
"""Bytes that a compiled pattern may take."""
_GLOB = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)


class LinearPattern:
    """A regular expression without look-around and back-references.

    Raises:
        ToolError: It is none.
    """

    __slots__ = ("_has",)

    def __init__(self, text: str) -> None:
        try:
            compiled = jsonschema_rs.Draft202012Validator(
                {"pattern": text}, pattern_options=jsonschema_rs.RegexOptions(size_limit=_SIZE, dfa_size_limit=_SIZE)
            )
        except (jsonschema_rs.ValidationError, ValueError, UnicodeError):
            raise ToolError(
                "bad_pattern",
                f"{text!r} is no regular expression that can be used; look-around and back-references are not "
                "supported, and parentheses and brackets that are meant literally need a backslash",
            ) from None
        self._has = compiled.is_valid

    def within(self, text: str) -> bool:
        """Whether it matches somewhere."""
        return self._has(text if text.isascii() else text.encode("utf-8", "replace").decode())


@lru_cache(maxsize=4096)  # the same .gitignore lies in many folders
def glob_pattern(pattern: str) -> LinearPattern:
    """`*` and `?` stay within a name, `**` does not. Without a slash it is for names, else for the whole way."""
    inside = pattern.strip("/")
    start = "^" if "/" in inside or pattern.startswith("/") else "(^|/)"
    return LinearPattern(f"{start}{''.join(map(_translated, _GLOB.findall(inside)))}$")


def _translated(piece: str) -> str:
    match piece:
        case "**/":
            return "([^\\x00]*/)?"
        case "**":
            return "[^\\x00]*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if len(piece) > 2 and piece.startswith("["):
        inside = piece[1:-1]
        negated = inside.startswith("!")
        kept = re.sub(r"([\\\[\]^&~])", r"\\\1", inside.removeprefix("!"))
        return f"[{'^' if negated else ''}{kept}]"
    return re.escape(piece) if piece.isascii() and not piece.isalnum() else piece
