"""What Monty raised, as the end of a cell and in words for whoever wrote the code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic_monty import Frame, MontyCrashedError, MontyRuntimeError, MontySyntaxError

from handrail.sandbox.kernel.program import ERROR_CHARS
from handrail.sandbox.monty.prologue import LOOK
from handrail.sandbox.port import Ending, ReplLimits

_FEED = re.compile(r"<python-input-(\d+)>")
_LINE_CHARS = 300
_FRAMES = 10
"""Of each end of a deep recursion."""

_LIMITS: tuple[tuple[re.Pattern[str], Ending], ...] = (
    (re.compile("TimeoutError: .{0,40}time limit"), "timeout"),
    (re.compile("MemoryError: .{0,40}memory limit"), "memory"),
)


@dataclass(frozen=True, slots=True)
class MontyFailure:
    """An exception of Monty, read once: what it says may be as large as the memory of the worker."""

    ending: Ending
    words: str
    """Its type and message, cut."""
    frames: tuple[Frame, ...] = ()

    @classmethod
    def of(cls, error: Exception) -> MontyFailure:
        match error:
            case MontyCrashedError():
                return cls("timeout" if error.timed_out else "lost", _cut(str(error)))
            case MontyRuntimeError():
                words = _cut(error.display("type-msg"))
                ending: Ending = next((end for pattern, end in _LIMITS if pattern.match(words)), "error")
                return cls(ending, words, tuple(error.traceback()))
            case MontySyntaxError():
                # Code that ends too early is found out where the look begins, which is not to blame.
                frames = tuple(frame for frame in error.traceback() if not _is_ours(frame))
                return cls("error", _cut(error.display("type-msg")), frames)
        return cls("lost", _cut(str(error)))

    def told(self, cells: Mapping[int, int], limits: ReplLimits) -> str:
        """A traceback through the cells' own lines, or which limit was reached."""
        match self.ending:
            case "timeout":
                words = f"TimeoutError: it ran for more than {limits.cell_seconds:g} s"
            case "memory":
                words = f"MemoryError: it took more than {limits.memory_bytes} bytes"
            case "lost":
                words = f"the interpreter ended: {self.words}"
            case _:
                words = self.words
        lines = [line for frame in self.frames if (line := _line(frame, cells))]
        if len(lines) > 2 * _FRAMES:
            lines[_FRAMES:-_FRAMES] = [f"  … {len(lines) - 2 * _FRAMES} more …"]
        head = ["Traceback (most recent call last):", *lines] if lines else []
        return "\n".join([*head, words])

    @property
    def is_of_the_look(self) -> bool:
        """Whether it was not the code that failed, but the look at what the code left."""
        return any(_is_ours(frame) for frame in self.frames)


def _line(frame: Frame, cells: Mapping[int, int]) -> str:
    """Empty for lines that are not of a cell."""
    feed = _FEED.fullmatch(frame.filename)
    if feed is not None and (int(feed[1]) not in cells or _is_ours(frame)):
        return ""
    name = f"<cell {cells[int(feed[1])]}>" if feed is not None else frame.filename
    where = f'  File "{name}", line {frame.line}, in {frame.function_name or "<module>"}'
    return f"{where}\n    {source[:_LINE_CHARS]}" if (source := (frame.source_line or "").strip()) else where


def _is_ours(frame: Frame) -> bool:
    return (frame.source_line or "").strip() == LOOK


def _cut(text: str) -> str:
    if len(text) <= ERROR_CHARS:
        return text
    half = ERROR_CHARS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
