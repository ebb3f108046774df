"""The pages as tests see them: fenced blocks with their lines, headings, links. It reads only what we write."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_OPEN = re.compile(r"^( *)(```+)(\w*)\s*$")
_NOT_RUN = re.compile(r"<!-- not run: (?P<reason>.+?) -->")
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")
_FILE_NAME = re.compile(r"^(?:#|//) (?P<path>[\w./-]+\.(?:py|toml|json))\n")
_CODE = re.compile(r"`[^`\n]+`")


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences."""

    language: str
    line: int
    """Of its first line of content, from 1."""
    text: str
    follows: bool
    """Whether only blank lines are between it and the block before."""
    not_run: str | None
    """Why it is not run, if the page says so."""

    @property
    def file(self) -> str | None:
        """The file that the block is, if its first line names one."""
        found = _FILE_NAME.match(self.text)
        return found["path"] if found and self.language in ("python", "toml", "json") else None


@dataclass(frozen=True, slots=True, repr=False)
class Page:
    path: Path
    blocks: tuple[Block, ...]
    prose: str
    """Everything but the blocks; a blank line stands for each line of them."""

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    def __repr__(self) -> str:
        return f"Page({self.name})"

    @property
    def links(self) -> list[str]:
        return [found["target"] for found in _LINK.finditer(_CODE.sub("``", self.prose))]

    @property
    def anchors(self) -> set[str]:
        """The names of the headings, as GitHub makes them."""
        return {_slug(line.lstrip("#")) for line in self.prose.splitlines() if line.startswith("#")}


def pages() -> list[Page]:
    """README.md, then everything in docs/."""
    return [read_page(path) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]


def read_page(path: Path) -> Page:
    blocks: list[Block] = []
    prose: list[str] = []
    between: list[str] = []
    lines = iter(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        opening = _OPEN.match(line)
        if opening is None:
            between.append(line)
            prose.append(line)
            continue
        indent, fence, language = opening.groups()
        content: list[str] = []
        for _, inner in lines:
            if inner.strip() == fence:
                break
            content.append(inner.removeprefix(indent))
        else:
            raise ValueError(f"{path}:{number}: the block is not closed")
        above = "\n".join(between).strip()
        reason = _NOT_RUN.search(above.rpartition("\n")[2])
        text = "".join(part + "\n" for part in content)
        blocks.append(Block(language, number + 1, text, not above and bool(blocks), reason and reason["reason"]))
        prose.extend([""] * (len(content) + 2))
        between = []
    return Page(path, tuple(blocks), "\n".join(prose))


def matches(printed: str, shown: str) -> bool:
    """Whether a page shows what was printed; `…` stands for any text within a line."""
    pattern = ".*?".join(map(re.escape, shown.rstrip().split("…")))
    return re.fullmatch(pattern, printed.rstrip()) is not None


def _slug(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")
