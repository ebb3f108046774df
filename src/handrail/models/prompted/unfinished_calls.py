"""What a text that ends after an opening mark was: the beginning of a call, or words about the mark."""

from __future__ import annotations

import re

from handrail.models.prompted.call_shapes import CallShape
from handrail.models.prompted.format_marks import FormatMarks
from handrail.models.prompted.found_call import Schemas

_HEADING = re.compile(r"\w[\w.:/-]*\s*([<\[`{].*)?\Z", re.DOTALL)
_VALUE = re.compile(r"\s*(?:\[\s*)?(?:\Z|\{\s*(?:\Z|[\"']))")
"""How a value of JSON begins."""
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
