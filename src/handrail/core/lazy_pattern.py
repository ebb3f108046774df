"""A regular expression that is compiled when it is first used.

Compiling the patterns of secrets takes 10 ms. A program that only says how it is used does not need them, and a text
that has no mark of a secret needs few of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


class LazyPattern:
    """Has the methods of `re.Pattern[str]` that are used here. After the first use they are those of the pattern."""

    search: Callable[[str], re.Match[str] | None]
    match: Callable[[str], re.Match[str] | None]
    fullmatch: Callable[[str], re.Match[str] | None]
    sub: Callable[[str | Callable[[re.Match[str]], str], str], str]

    def __init__(self, source: str, flags: int = 0) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self._source, self._flags)
        self.search, self.match, self.fullmatch = compiled.search, compiled.match, compiled.fullmatch
        self.sub = compiled.sub
        return getattr(compiled, name)
