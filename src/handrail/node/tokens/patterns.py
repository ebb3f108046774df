"""Patterns of `name@version`, in which `*` stands for any text: what they match, and which lie inside which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from handrail.core.errors import BusError

EVERYTHING = "*@*"
_PATTERN = re.compile(r"[a-z0-9_.*-]{1,100}@(?:\*|[0-9]{1,6}\.(?:\*|[0-9]{1,6}))")
_ANY = "\0"
"""Stands for the `*` of a pattern that is looked for inside another. No name has it."""


def pattern(text: str) -> str:
    """The pattern as it is kept: `rag.*` is `rag.*@*`.

    Raises:
        BusError: It is none (`bad_request`).
    """
    whole = text if "@" in text else f"{text}@*"
    if not _PATTERN.fullmatch(whole):
        raise BusError(
            "bad_request",
            f"{text[:60]!r} is not a pattern of capabilities; write 'rag.query@1.0', 'rag.*@1.*' or '*'",
        )
    return whole


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name, as `rag.query@1.0`, is one of those that the patterns stand for."""
    return any(_fits(name, each) for each in patterns)


def is_inside(inner: str, patterns: Iterable[str]) -> bool:
    """Whether everything that `inner` stands for lies inside one of the patterns.

    A letter that occurs in no pattern takes the place of each `*`. Only another `*` matches
    it, and that would match anything in its place: so a yes is always true.
    """
    return matches(inner.replace("*", _ANY), patterns)


def shared_patterns(some: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Patterns of what both allow. Where two overlap and neither lies inside the other, nothing of it."""
    both = [each for each in some if is_inside(each, others)] + [each for each in others if is_inside(each, some)]
    return tuple(dict.fromkeys(both))


def _fits(name: str, text: str) -> bool:
    """Matches in one walk through the name, however many stars there are."""
    first, *rest = text.split("*")
    if not rest:
        return name == text
    *middle, last = rest
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for piece in middle:
        at = name.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True
