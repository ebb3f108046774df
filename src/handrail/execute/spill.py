"""Whole outputs, kept in memory up to a size, and the tool that reads them in pieces."""

from __future__ import annotations

from typing import Annotated

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import ToolError
from handrail.core.ids import NewId, new_id
from handrail.core.ports import Spill
from handrail.tools.finder import ALWAYS
from handrail.tools.tool import Tool

LONGEST_PIECE = 8_000
_SPARE = 200
"""Characters for the line under a piece, so that a piece is never cut again."""


class MemorySpill:
    """Keeps the newest outputs up to a total number of characters; the oldest are dropped first."""

    def __init__(self, most: int = 64_000_000, new_id: NewId = new_id) -> None:
        self._new_id = new_id
        self._texts = BoundedMemory[str, str](weight=len, most_weight=most, keep_newest=True)

    async def put(self, text: str) -> str:
        id = self._new_id("out")
        self._texts[id] = text
        return id

    async def read(self, id: str, start: int, length: int) -> tuple[str, int]:
        text = self._texts[id]
        return text[start : start + length], len(text)


READ_OUTPUT = "read_output"


def read_output_tool(spill: Spill) -> Tool:
    """Make the tool `read_output`, for a model that got only the beginning of a long output."""

    async def read_output(
        id: Annotated[str, "The id in the note of the cut output."],
        start: Annotated[int, "The first character to read, from 0."] = 0,
        length: Annotated[int, f"How many characters, at most {LONGEST_PIECE}."] = LONGEST_PIECE,
    ) -> str:
        """Read a further piece of an output that was too long to send whole."""
        start = max(start, 0)
        try:
            piece, total = await spill.read(id, start, min(max(length, 1), LONGEST_PIECE))
        except KeyError:
            raise ToolError("not_found", f"no output {id!r} is kept; it may have made room for newer ones") from None
        return f"{piece}\n[characters {start:,} to {start + len(piece):,} of {total:,}]"

    return Tool.from_function(read_output, name=READ_OUTPUT, max_output=LONGEST_PIECE + _SPARE, tags=(ALWAYS,))
