"""Whether a finished reply looks like a call in some format that nobody read it for.

Looked at once, when a reply that could have called a tool called none. A search for
the marks of all formats passes ordinary text in one go; only a format whose mark was
found is then read, by the reader that it always has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from handrail.core.errors import ProtocolError
from handrail.models.prompted.call_detector import CallDetector
from handrail.models.prompted.call_shapes import own_opening_marks
from handrail.models.prompted.formats import FORMATS
from handrail.models.prompted.found_call import FoundCall, Schemas

_UNMARKED = {
    "llama4": r"^[ \t]*\[\s*[\w.]+\(",
    "json": r"^[ \t]*(?:```\w*\s*)?[\[{]\s*(?:\{\s*)?[\"']",
    "phi4": r"functools\[",
}
"""The beginnings of calls in formats without marks. Such text is a call only if it names an offered tool."""


def missed_call_notice(text: str, schemas: Schemas) -> str | None:
    """A sentence about the first call that a text looks like it holds; None if there is none."""
    for format in _formats_in(text):
        detector = CallDetector(format, schemas)
        try:
            found = [piece for piece in (*detector.feed(text), *detector.finish()) if isinstance(piece, FoundCall)]
        except ProtocolError:
            return _sentence("the beginning of a call", format)
        if found and (format not in _UNMARKED or found[0].name in schemas):
            return _sentence(f"a call of {found[0].name!r}", format)
    return None


def _sentence(what: str, format: str) -> str:
    return (
        f"the reply holds what looks like {what} in the text format {format!r}; it was given out as text and not run. "
        f"If the model writes calls that way, turn on the server's parser for them, or use tools='prompted:{format}'"
    )


def _formats_in(text: str) -> Iterator[str]:
    """The formats of the marks in a text, in the order in which the marks stand there."""
    seen: set[str] = set()
    for mark in _marks().finditer(text):
        format = mark.lastgroup if mark.lastgroup in FORMATS else _owners()[mark[0]]
        if format is not None and format not in seen:
            seen.add(format)
            yield format


@cache
def _owners() -> dict[str, str]:
    """The first format, for each mark, that has it for its own."""
    owners: dict[str, str] = {"<|channel|>commentary to=": "harmony"}
    for format in FORMATS:
        for mark in own_opening_marks(format):
            owners.setdefault(mark, format)
    return owners


@cache
def _marks() -> re.Pattern[str]:
    unmarked = (f"(?P<{format}>{begins})" for format, begins in _UNMARKED.items())
    return re.compile("|".join((*map(re.escape, _owners()), *unmarked)), re.MULTILINE)
