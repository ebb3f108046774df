"""Scores as people read them: lines, a table, and the table of `docs/conformance.md`."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from conformance.suite import PACKAGE, ROOT, SETS, Score, version

PAGE = ROOT / "docs" / "conformance.md"
BEGIN = "<!-- figures: written by `python -m conformance --write` -->"
END = "<!-- end of figures -->"


def line(score: Score) -> str:
    checks = f"{score.passed} passed, {score.failed} failed"
    verdict = "ok" if score.ok else "hollow" if score.hollow else "FAILED"
    head = f"{verdict:<6} {score.scenario.set:<10} {score.scenario.role} {score.scenario.name}"
    return f"{head}: {checks} ({score.seconds:.1f} s)" + (
        "" if score.ok or score.hollow else f"\n       {score.why[:1000]}"
    )


def table(scores: Sequence[Score]) -> str:
    """One row per set; `scenarios` counts those that passed, of all."""
    rows = ["| revision | part | scenarios | checks |", "|---|---|---|---|"]
    for group in SETS:
        for role in ("server", "client"):
            part = [score for score in scores if (score.scenario.set, score.scenario.role) == (group, role)]
            if part:
                passed, checks = sum(score.ok for score in part), sum(score.passed for score in part)
                hollow = sum(score.hollow for score in part)
                empty = f"; {hollow} checks nothing" if hollow else ""
                name = "2026-07-28, extension `io.modelcontextprotocol/tasks`" if group == "tasks" else group
                rows.append(f"| {name} | {role} | {passed}/{len(part)}{empty} | {checks} |")
    return "\n".join(rows)


def figures(scores: Sequence[Score], today: date) -> str:
    with_what = f"{PACKAGE} {version()}, Python package `mcp` {importlib.metadata.version('mcp')}"
    return f"Measured on {today.isoformat()} with {with_what}.\n\n{table(scores)}"


def write(scores: Sequence[Score], today: date, page: Path = PAGE) -> None:
    """Put the figures into the page, between its markers."""
    text = page.read_text(encoding="utf-8")
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"{page} has no place for figures: it needs the lines {BEGIN!r} and {END!r}")
    page.write_text(f"{before}{BEGIN}\n{figures(scores, today)}\n{END}{after}", encoding="utf-8")
