"""Versions of capabilities: `X.Y` on the wire, `(X, Y)` in code."""

from __future__ import annotations

import re
from functools import lru_cache

from handrail.core.errors import BusError

Version = tuple[int, int]
VersionReq = Version | str
"""A required version: at least this minor of exactly this major; as text `"1.0"`, `">=1.0"` or `"@>=1.0"`."""

_WRITTEN = re.compile(r"@?(?:>=)?(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")


def version_of(wanted: VersionReq) -> Version:
    """What is asked for, as numbers.

    Raises:
        BusError: It is no version (`bad_request`).
    """
    if isinstance(wanted, str):
        found = _WRITTEN.fullmatch(wanted.replace(" ", ""))
        if found is None:
            raise BusError("bad_request", f"{wanted[:40]!r} is not a version; write it as 1.0")
        return int(found[1]), int(found[2])
    major, minor = wanted
    return int(major), int(minor)


@lru_cache(maxsize=256)
def version_text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def satisfies(offered: Version, wanted: Version) -> bool:
    """A higher minor can do what a lower one could; another major is another thing."""
    return offered[0] == wanted[0] and offered[1] >= wanted[1]


def split_name(text: str) -> tuple[str, Version]:
    """`rag.query@1.0` as its name and version; without one, 1.0."""
    name, at, version = text.partition("@")
    return name, version_of(version) if at else (1, 0)
