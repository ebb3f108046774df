"""`python -m reliability [--quick] [ROW …]`: plays the rows and prints the table of docs/reliability.md."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from reliability.processes import fork_context
from reliability.report import table, write
from reliability.rows import ROWS, row_named
from reliability.sweep import Row, sweep

QUICK = 2


def available(names: Sequence[str]) -> dict[str, Row]:
    """The rows that can be played here; what one of the others needs is not installed."""
    found: dict[str, Row] = {}
    for name in names or ROWS:
        try:
            found[name] = row_named(name)
        except ImportError as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
    return found


def complain(problem: str) -> None:
    print(problem, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reliability", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK} moments of each row")
    parser.add_argument("--write", action="store_true", help="put the table of all rows into docs/reliability.md")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.rows if name not in ROWS]:
        parser.error(f"no row named {', '.join(unknown)}; the rows are {', '.join(ROWS)}")
    if asked.write and (asked.rows or asked.quick):
        parser.error("--write is for all rows and all their moments")
    rows = available(asked.rows)
    context = fork_context(module for row in rows.values() for module in row.preload)
    reports = []
    for name, row in rows.items():
        begun = time.monotonic()
        reports.append(sweep(row, context, QUICK if asked.quick else None, complain))
        print(f"{name}: {reports[-1].moments} kills in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    print(table(reports))
    problems = [problem for report in reports for problem in report.problems]
    if asked.write and not problems:
        write(reports, datetime.now(UTC).date())
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
