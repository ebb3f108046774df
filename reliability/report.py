"""The table as people read it, on the terminal and in `docs/reliability.md`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from reliability.sweep import RowReport

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"
BEGIN = "<!-- figures: written by `python -m reliability --write` -->"
END = "<!-- end of figures -->"
COLUMNS = "the call goes through", "what is killed, and where", "kills", "paid once", "after a person looked"


def table(reports: Sequence[RowReport]) -> str:
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(report.cells for report in reports)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def rows_on(page: Path = PAGE) -> dict[str, tuple[str, ...]]:
    """The rows of the page by name, each as its cells."""
    figures = page.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    cells = [
        tuple(cell.strip() for cell in line.strip("| ").split("|")) for line in figures.splitlines() if "|" in line
    ]
    return {each[0]: each for each in cells[2:]}


def write(reports: Sequence[RowReport], today: date, page: Path = PAGE) -> None:
    """Put the table into the page, between its markers."""
    text = page.read_text(encoding="utf-8")
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"{page} has no place for the table: it needs the lines {BEGIN!r} and {END!r}")
    figures = f"Measured on {today.isoformat()}.\n\n{table(reports)}"
    page.write_text(f"{before}{BEGIN}\n{figures}\n{END}{after}", encoding="utf-8")
