"""The output of a command: its journal, its form (text or JSON), and a way to print it.

Answers go to stdout, everything else to stderr. Tables are drawn for people only: in a
pipe they are plain columns with whole ids.
"""

from __future__ import annotations

import functools
import io
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail.cli import text
from handrail.cli.ids import shorten_ids
from handrail.cli.journal_location import configured_journal, find_journal
from handrail.cli.journal_type import JOURNAL_PLACE
from handrail.core.errors import UsageError
from handrail.journal.places import JournalPlace, file_of

if TYPE_CHECKING:
    from handrail.journal.reader import JournalReader

STYLES = {
    "ok": "green",
    "done": "green",
    "failed": "red",
    "timeout": "red",
    "in_doubt": "bold magenta",
    "open": "cyan",
    "waiting": "yellow",
    "denied": "yellow",
}


_GAP = 2
_NARROWEST = 10


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    right: bool = False
    """Whether it holds numbers."""
    cut: bool = False
    """Whether it is cut when the terminal is narrow."""


def columns(*names: str, right: Container[str] = (), cut: str = "") -> tuple[TableColumn, ...]:
    """The columns of a table: which hold numbers, and which one is cut when the terminal is narrow."""
    return tuple(TableColumn(name, name in right, name == cut) for name in names)


@dataclass(frozen=True, slots=True)
class CommandView:
    named: JournalPlace | None
    as_json: bool
    utc: bool
    config: Path | None = None
    """The configuration that is named on the command line."""

    @property
    def path(self) -> JournalPlace:
        return find_journal(self.named or configured_journal(self.config, Path.cwd()), Path.cwd())

    def named_file(self, what: str) -> Path | None:
        """The journal that is named, for what needs one in a file.

        Raises:
            UsageError: It is in a shared state.
        """
        return None if self.named is None else file_of(self.named, what)

    def reader(self) -> JournalReader:
        from handrail.journal.reader import JournalReader

        return JournalReader(self.path)

    def when(self, at: int) -> str:
        return text.day_and_time(at, self.utc)

    def ids(self, known: Iterable[str]) -> dict[str, str]:
        """The ids as they are shown: whole for programs, cut for people."""
        return shorten_ids(known) if is_terminal() else {each: each for each in known}

    def wrote_json(self, *values: Any) -> bool:
        """Answer with a line of JSON for each value, if JSON is asked for; whether it is."""
        if self.as_json:
            for value in values:
                answer_json(value)
        return self.as_json

    def reply(self, value: Any, line: str) -> None:
        """Answer with the value where JSON is asked for, and with the line elsewhere."""
        if not self.wrote_json(value):
            answer(line)


def with_common_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that all have, as a `CommandView`."""

    def with_view(ctx: click.Context, journal: JournalPlace | None, as_json: bool, utc: bool, **options: Any) -> None:
        above = ctx.find_root().params
        function(CommandView(journal or above.get("journal"), as_json, utc, above.get("config")), **options)

    functools.update_wrapper(with_view, function)
    command: Callable[..., None] = click.pass_context(with_view)
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def with_output_file(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command `-o`: its answer is written to a file, as it would be to a pipe. A command that fails before it
    has an answer leaves the file as it was."""

    def to_file(*given: Any, output: Path | None, **options: Any) -> None:
        if output is None:
            return function(*given, **options)
        answered = io.BytesIO()
        written = io.TextIOWrapper(answered, encoding="utf-8", write_through=True)
        try:
            with redirect_stdout(written):
                function(*given, **options)
        except (SystemExit, click.exceptions.Exit):  # an answer too, as that something is not verified
            _write(output, answered.getvalue())
            raise
        _write(output, answered.getvalue())

    functools.update_wrapper(to_file, function)
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write the answer to this file, not to stdout.",
    )(to_file)


def _write(file: Path, written: bytes) -> None:
    from handrail.core.durable_files import write_atomically

    try:
        write_atomically(file, written)
    except OSError as error:
        raise UsageError(f"{str(file)!r} cannot be written: {error.strerror or error}") from error


_OPTIONS = (
    click.option("--journal", type=JOURNAL_PLACE, metavar="PATH", help="The journal: a file, or postgresql://…"),
    click.option("--json", "as_json", is_flag=True, help="Answer in JSON."),
    click.option("--utc", is_flag=True, help="Show times in UTC instead of the local zone."),
)


def is_terminal() -> bool:
    return sys.stdout.isatty()


def answer(line: str = "", style: str = "") -> None:
    """A line of the answer."""
    plain = not style or os.environ.get("NO_COLOR")
    click.echo(line if plain else click.style(line, **_CLICK_STYLES[style]))


def answer_json(value: Any) -> None:
    click.echo(text.to_json(value))


_told: list[Callable[[str], None]] = []
"""The listeners that get messages in place of stderr; the last one gets them."""


def tell(line: str = "") -> None:
    """Something beside the answer."""
    if _told:
        _told[-1](line)
    else:
        click.echo(line, err=True)


def tell_elsewhere(listener: Callable[[str], None]) -> None:
    """Sends messages to this listener from now on, for as long as the process lasts."""
    _told.append(listener)


def tell_dim(line: str) -> None:
    """Something beside the answer that matters less."""
    tell(line if os.environ.get("NO_COLOR") else click.style(line, dim=True))


def ask(question: str) -> bool:
    """Whether the person says yes.

    Raises:
        UsageError: Nobody is there to answer.
    """
    from handrail.execute.terminal.line_reader import discard_typed_input

    discard_typed_input()
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    line = sys.stdin.readline()
    if not line:
        tell()
        raise UsageError("nobody answered, so nothing was done; add --yes to continue without being asked")
    return line.strip().lower() in ("y", "yes")


def table(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], styles: dict[str, str] = STYLES) -> None:
    """Rows under headings. On a terminal a cell whose first word has a style is drawn in it, and a column
    that tells nothing is left out."""
    if is_terminal():
        _draw(columns, rows, styles)
        return
    for line in plain(columns, rows):
        answer(line)


def plain(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [[column.name.upper() for column in columns], *map(list, rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return ["  ".join(map(_padded, columns, cells, widths)).rstrip() for cells in lines]


def _padded(column: TableColumn, cell: str, width: int) -> str:
    return cell.rjust(width) if column.right else cell.ljust(width)


def _draw(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], styles: dict[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    told = [at for at, _ in enumerate(columns) if any(row[at] != "-" for row in rows)]
    widths = {at: max(_width(columns[at].name), *(_width(row[at]) for row in rows)) for at in told}
    drawn = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for at in told:
        drawn.add_column(columns[at].name.upper(), justify="right" if columns[at].right else "left", overflow="fold")
    for row in rows:
        cells = {at: Text(row[at], style=styles.get(re.split("[ ,]", row[at])[0], "")) for at in told}
        for at in told:
            if columns[at].cut:
                others = sum(width + _GAP for other, width in widths.items() if other != at)
                cells[at].truncate(max(_NARROWEST, console.width - others), overflow="ellipsis")
        drawn.add_row(*cells.values())
    console.print(drawn)


def _width(shown: str) -> int:
    from rich.cells import cell_len

    return cell_len(shown)


_CLICK_STYLES: dict[str, dict[str, Any]] = {
    "good": {"fg": "green", "bold": True},
    "bad": {"fg": "red", "bold": True},
    "title": {"bold": True},
    "dim": {"dim": True},
}
