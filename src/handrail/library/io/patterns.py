"""Patterns that a stranger may have written: matched in linear time, or not at all.

Python's own `re` can be made to run for ever by 30 characters. The engine of the
schema validator cannot, so it is asked here too, also for the rules of .gitignore files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
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
                f"{text!r} is not a regular expression that can be used; look-around and back-references are not "
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


_MOST = 2_000
"""Rules of one file."""


@dataclass(frozen=True, slots=True)
class _IgnoreRule:
    base: str
    """The folder that its file is in."""
    pattern: LinearPattern
    folders_only: bool
    keeps: bool

    def has(self, way: str, *, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        inside = way[len(self.base) + 1 :] if self.base else way
        return self.pattern.within(inside)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that hold in a folder: those of the folders above it, then its own."""

    rules: tuple[_IgnoreRule, ...] = ()

    def more(self, way: str, text: str) -> IgnoreRules:
        found = [_rule(way, line) for line in text.splitlines()[:_MOST]]
        return IgnoreRules((*self.rules, *(rule for rule in found if rule is not None)))

    def has(self, way: str, *, is_folder: bool) -> bool:
        """Whether the last rule that fits says so, as in git."""
        for rule in reversed(self.rules):
            if rule.has(way, is_folder=is_folder):
                return not rule.keeps
        return False


def _rule(base: str, line: str) -> _IgnoreRule | None:
    line = line.rstrip()
    if not line or line.startswith("#"):
        return None
    keeps = line.startswith("!")
    line = line.removeprefix("!").removeprefix("\\")
    folders_only = line.endswith("/")
    try:
        pattern = glob_pattern(line)
    except ToolError:  # what cannot be read hides nothing
        return None
    return _IgnoreRule(base, pattern, folders_only, keeps)
