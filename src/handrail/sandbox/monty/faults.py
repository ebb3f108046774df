"""What Monty raised, as the end of a cell and in words for whoever wrote the code."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic_monty import Frame, MontyCrashedError, MontyRuntimeError, MontySyntaxError

from handrail.sandbox.kernel.program import ERROR_CHARS
from handrail.sandbox.port import Ending, ReplLimits

TAIL = "None"
"""The last line of what is fed for a cell, so that no value is left over. What fails there has failed before it."""

_FEED = re.compile(r"<python-input-(\d+)>")
_LINE_CHARS = 300
_FRAMES = 10
"""Of each end of a deep recursion."""

_LIMITS: tuple[tuple[type[BaseException], str, Ending], ...] = (
    (TimeoutError, "time limit", "timeout"),
    (MemoryError, "memory limit", "memory"),
)


def ending_of(error: Exception) -> Ending:
    match error:
        case MontyCrashedError():
            return "timeout" if error.timed_out else "lost"
        case MontyRuntimeError():
            raised, text = error.exception(), str(error)[:100]
            return next((end for kind, words, end in _LIMITS if isinstance(raised, kind) and words in text), "error")
        case MontySyntaxError():
            return "error"
    return "lost"


def told(error: Exception, cells: Mapping[int, int], limits: ReplLimits) -> str:
    """A traceback through the cells' own lines, or which limit was reached."""
    ending = ending_of(error)
    reached = {
        "timeout": f"TimeoutError: it ran for more than {limits.cell_seconds:g} s",
        "memory": f"MemoryError: it took more than {limits.memory_bytes} bytes",
        "lost": f"the interpreter ended: {_cut(str(error))}",
    }
    if not isinstance(error, MontyRuntimeError | MontySyntaxError):
        return reached[ending]
    lines = [line for frame in error.traceback() if (line := _line(frame, cells))]
    if len(lines) > 2 * _FRAMES:
        lines[_FRAMES:-_FRAMES] = [f"  … {len(lines) - 2 * _FRAMES} more …"]
    head = ["Traceback (most recent call last):", *lines] if lines else []
    return "\n".join([*head, reached.get(ending) or _cut(error.display("type-msg"))])


def _line(frame: Frame, cells: Mapping[int, int]) -> str:
    """Empty for lines that are not of a cell."""
    feed = _FEED.fullmatch(frame.filename)
    if feed is not None and (int(feed[1]) not in cells or frame.source_line == TAIL):
        return ""
    name = f"<cell {cells[int(feed[1])]}>" if feed is not None else frame.filename
    where = f'  File "{name}", line {frame.line}, in {frame.function_name or "<module>"}'
    return f"{where}\n    {source[:_LINE_CHARS]}" if (source := (frame.source_line or "").strip()) else where


def _cut(text: str) -> str:
    if len(text) <= ERROR_CHARS:
        return text
    half = ERROR_CHARS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
