"""Whether a pattern of a rule covers the place that a path argument leads to. Pure.

    keep/**          in the first root
    notes:keep/**    in the root `notes`
    *:keep/**        in every root
    /srv/data/**     by its whole path
    **               everywhere

The place is a `Location`, which the tool has resolved: two spellings of one path are one place.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from handrail.core.location import Location

_WILD = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
ANYWHERE = "**"


def pattern_covers(pattern: str, location: Location) -> bool:
    """Whether the place fits the pattern."""
    if pattern == ANYWHERE:
        return True
    return any(glob_of(wanted).fullmatch(path) is not None for wanted, path in _pairs(pattern, location))


def pattern_reaches(pattern: str, location: Location) -> bool:
    """Whether the place, or something below it that the call touches too, may fit the pattern. Names that look the
    same, as é in one letter and in two, are the same here: this is what a `deny` goes by."""
    if pattern_covers(pattern, location):
        return True
    pairs = [(_composed(wanted), _composed(path)) for wanted, path in _pairs(pattern, location)]
    if any(glob_of(wanted).fullmatch(path) is not None for wanted, path in pairs):
        return True
    return location.tree and any(_may_hold(path, wanted) for wanted, path in pairs)


@lru_cache(maxsize=1024)
def glob_of(pattern: str) -> re.Pattern[str]:
    """`*` and `?` stay within a path segment, `**` does not."""
    pieces = re.split(r"(\*\*|\*|\?)", pattern)
    return re.compile("".join(_WILD.get(piece, re.escape(piece)) for piece in pieces), re.DOTALL)


def _pairs(pattern: str, location: Location) -> Iterator[tuple[str, str]]:
    """What the pattern wants and what the place is called, in each form that both have."""
    if pattern.startswith("/"):
        yield _normal(pattern), location.absolute
        return
    root, colon, inside = pattern.partition(":")
    for name in location.names:
        its_root, _, path = name.partition(":")
        if colon and glob_of(root).fullmatch(its_root):
            yield _normal(inside), path
        if its_root == location.first:  # also a pattern with a colon, which may stand in the name of a file
            yield _normal(pattern), path


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _normal(pattern: str) -> str:
    return re.sub("^/+", "/", posixpath.normpath(pattern)) if pattern else "."


def _may_hold(folder: str, pattern: str) -> bool:
    """Whether something below a folder may fit the pattern: the folder fits its beginning, name by name."""
    wanted = pattern.split("/")
    for depth, name in enumerate([] if folder == "." else folder.split("/")):
        if depth == len(wanted):
            return False
        if "**" in wanted[depth]:
            return True
        if glob_of(wanted[depth]).fullmatch(name) is None:
            return False
    return True
