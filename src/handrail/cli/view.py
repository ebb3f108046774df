"""What every command has: its journal, its form of answer, and a way to print it.

Answers go to stdout, everything else to stderr. Tables are drawn for people only: in a
pipe they are plain columns with whole ids.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from handrail.cli import text
from handrail.cli.ids import shorten
from handrail.cli.place import find_journal
from handrail.proof.read import Reader

STYLES = {
    "ok": "green",
    "failed": "red",
    "timeout": "red",
    "in_doubt": "bold magenta",
    "open": "cyan",
    "waiting": "yellow",
    "denied": "yellow",
}


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    right: bool = False
    """Whether it holds numbers."""
    fold: bool = False
    """Whether it may be broken into lines when the terminal is narrow."""


@dataclass(frozen=True, slots=True)
class View:
    named: Path | None
    as_json: bool
    utc: bool

    @property
    def path(self) -> Path:
        return find_journal(self.named, Path.cwd())

    def reader(self) -> Reader:
        return Reader(self.path)

    def when(self, at: int) -> str:
        return text.day_and_time(at, self.utc)

    def ids(self, known: Iterable[str]) -> dict[str, str]:
        """The ids as they are shown: whole for programs, cut for people."""
        return shorten(known) if is_terminal() else {each: each for each in known}


def common(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that all have, as a `View`."""

    @click.option("--journal", type=click.Path(path_type=Path), metavar="PATH", help="The journal to look at.")
    @click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
    @click.option("--utc", is_flag=True, help="Show times in UTC instead of the local zone.")
    @click.pass_context
    @functools.wraps(function)
    def with_view(ctx: click.Context, journal: Path | None, as_json: bool, utc: bool, **options: Any) -> None:
        function(View(journal or ctx.find_root().params.get("journal"), as_json, utc), **options)

    return with_view


def is_terminal() -> bool:
    return sys.stdout.isatty()


def answer(line: str = "", style: str = "") -> None:
    """A line of the answer."""
    click.echo(click.style(line, **_CLICK_STYLES.get(style, {})))


def answer_json(value: Any) -> None:
    click.echo(text.to_json(value))


def tell(line: str = "") -> None:
    """Something beside the answer."""
    click.echo(line, err=True)


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], styles: dict[str, str] = STYLES) -> None:
    """Rows under headings. A cell whose first word has a style is drawn in it."""
    if is_terminal():
        _draw(columns, rows, styles)
        return
    for line in plain(columns, rows):
        answer(line)


def plain(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [[column.name.upper() for column in columns], *map(list, rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return ["  ".join(map(_padded, columns, cells, widths)).rstrip() for cells in lines]


def _padded(column: Column, cell: str, width: int) -> str:
    return cell.rjust(width) if column.right else cell.ljust(width)


def _draw(columns: Sequence[Column], rows: Iterable[Sequence[str]], styles: dict[str, str]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        side = "right" if column.right else "left"
        drawn.add_column(column.name, justify=side, no_wrap=not column.fold, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell, style=styles.get(cell.partition(" ")[0].rstrip(","), "")) for cell in row))
    Console(highlight=False).print(drawn)


_CLICK_STYLES: dict[str, dict[str, Any]] = {
    "good": {"fg": "green", "bold": True},
    "bad": {"fg": "red", "bold": True},
    "title": {"bold": True},
    "dim": {"dim": True},
}
