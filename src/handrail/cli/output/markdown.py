"""Markdown as a terminal shows it, block by block: a paragraph, a list or a block of code once it is whole.

HTML stands there as it was written, and links show their addresses: nothing is hidden, and nothing can be clicked that
says something else.
"""

from __future__ import annotations

import io
import re
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.markdown import Markdown

_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_WIDEST = 100
_PADDING = re.compile(r"[ \t]+((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)


class MarkdownBlocks:
    """Takes text as it comes, and gives the blocks that are whole: each ends at an empty line that is in no fence."""

    def __init__(self) -> None:
        self.last_line = ""
        """The one that is being written."""
        self._block: list[str] = []
        self._fence = ""

    def feed(self, piece: str) -> list[str]:
        *lines, self.last_line = (self.last_line + piece).split("\n")
        return [block for line in lines if (block := self._take(line))]

    def rest(self) -> str:
        """What is left when the reply is over."""
        rest = "\n".join((*self._block, self.last_line)).strip("\n")
        self.last_line, self._block, self._fence = "", [], ""
        return rest

    def _take(self, line: str) -> str:
        if (found := _FENCE.match(line)) is not None:
            if not self._fence:
                self._fence = found[1]
            elif found[1].startswith(self._fence):
                self._fence = ""
        if line.strip() or self._fence:
            self._block.append(line)
            return ""
        block, self._block = "\n".join(self._block), []
        return block


def render_markdown(block: str, width: int | None = None) -> str:
    """The block with the styles of a terminal, without an empty line around it."""
    from rich.console import Console

    wide = min(width or shutil.get_terminal_size().columns, _WIDEST)
    console = Console(file=io.StringIO(), width=wide, force_terminal=True, highlight=False)
    with console.capture() as captured:
        console.print(_parsed(block))
    return _PADDING.sub(r"\1", captured.get()).strip("\n")


def _parsed(block: str) -> Markdown:
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    drawn = Markdown("", hyperlinks=False)
    drawn.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(block)
    return drawn
