"""The opening and closing marks of a format, ready to look for in a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from handrail.models.prompted.body_scanners import FENCE
from handrail.models.prompted.call_shapes import CLOSES, CallShape, foreign_opening_marks, shapes_of_format
from handrail.models.prompted.found_call import Schemas


class FormatMarks:
    """Made once for a format; nothing in it changes."""

    def __init__(self, format: str) -> None:
        rows = shapes_of_format(format)
        anywhere = [row.opens for row in rows if row.where == "anywhere"]
        line = [row.opens for row in rows if row.where == "line"]
        self.shapes = {row.opens: row for row in rows}
        self.foreign = foreign_opening_marks(format)
        at_line = "|".join(_unless_longer(mark, self.shapes) for mark in line)
        self.opening = re.compile(f"(?P<anywhere>{_any(anywhere)})|(?<![^\\n])[ \\t]*+(?P<line>{at_line})")
        self.nested = re.compile(_any([*anywhere, FENCE]))
        """What may follow an opening mark at once."""
        self.nested_prefixes = _prefixes([*anywhere, FENCE])
        self.closing_prefixes = _prefixes([*CLOSES, FENCE])
        ends = (*CLOSES, *anywhere, *("\n" + mark for mark in line if mark not in "{["))
        self.ending = re.compile(_any(ends))
        """What ends a call that nothing else did. A bracket in a new line may be its arguments."""
        self.longest_ending = max(map(len, ends))
        self._anywhere = _prefixes(anywhere)
        self._line = _prefixes(line)
        self._longest = max(map(len, self.shapes))

    def held(self, text: str, *, at_line: bool) -> int:
        """The number of characters at the end of a text that could begin a mark; `at_line` says whether the text begins
        a line."""
        for count in range(min(len(text), self._longest - 1), 0, -1):
            end = text[-count:]
            if end in self._anywhere:
                return count
            if end in self._line:
                before = text[:-count].rstrip(" \t")
                if before.endswith("\n") or (at_line and not before):
                    return count
        return 0


@lru_cache
def marks_of_format(format: str) -> FormatMarks:
    return FormatMarks(format)


def _any(literals: Iterable[str]) -> str:
    """A pattern of any of them. Most characters begin none, and are passed at once."""
    literals = list(literals)
    first = "".join(sorted({re.escape(mark[0]) for mark in literals}))
    return f"(?=[{first}])(?:{'|'.join(map(re.escape, literals))})" if literals else "(?!)"


def _unless_longer(mark: str, others: Iterable[str]) -> str:
    """A pattern of a mark that does not match where one of the others, which it begins, stands or may still come."""
    rests = [other[len(mark) :] for other in others if other.startswith(mark) and other != mark]
    if not rests:
        return re.escape(mark)
    begun = (f"{re.escape(rest[:end])}\\Z" for rest in rests for end in range(len(rest)))
    return f"{re.escape(mark)}(?!{'|'.join((*map(re.escape, rests), *begun))})"


def _prefixes(literals: Iterable[str]) -> frozenset[str]:
    return frozenset(mark[:end] for mark in literals for end in range(1, len(mark)))


_HEADING = re.compile(r"\w[\w.:/-]*\s*([<\[`{].*)?\Z", re.DOTALL)
_VALUE = re.compile(r"\s*(?:\[\s*)?(?:\Z|\{\s*(?:\Z|[\"']))")
"""The pattern of the beginning of a JSON value."""
_CODE = re.compile(r"\s*\[\s*([\w.]+)\(")


def may_precede_call_value(text: str, gap: str, marks: FormatMarks) -> bool:
    """Whether a text can stand between an opening mark and a value: nothing, a name, or half of a further mark.

    A name stands right after its mark; in a line of its own it counts if a mark follows it. `gap` is what stood
    between the mark and the text.
    """
    words = text.strip()
    if not words or (words in marks.nested_prefixes and "`" not in words):
        return True
    heading = _HEADING.match(text)
    return heading is not None and (not gap.isspace() or (bool(heading[1]) and " " not in gap))


def begins_as_a_call(body: str, gap: str, shape: CallShape, marks: FormatMarks, schemas: Schemas) -> bool:
    """Whether the inside of a call that cannot be read begins as one does."""
    if shape.begun is not None and shape.begun.match(body):
        return True
    if shape.plain:
        code = _CODE.match(body)
        return code is not None and code[1] in schemas
    return may_precede_call_value(body, gap, marks) or _VALUE.match(body) is not None
