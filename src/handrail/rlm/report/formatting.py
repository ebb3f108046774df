"""Numbers and texts as the page has them. Whatever is `safe` here is text in HTML, and nothing else."""

from __future__ import annotations

from datetime import datetime
from html import escape

from handrail.core.display import printable_lines
from handrail.core.redact import redact_text
from handrail.rlm.report.tree import ReportUsage

KEY = 4_000
"""Characters beyond a cut that are looked at: half a key is a secret too."""


def tokens(used: ReportUsage) -> str:
    said = f"{used.input_tokens:,} → {used.output_tokens:,} tokens"
    return said if used.cost is None else f"{said} · {money(used.cost)}"


def money(cost: float | None) -> str:
    if cost is None:
        return "–"
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"


def time(seconds: float) -> str:
    if seconds < 0.9995:
        return f"{seconds * 1000:,.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if not seconds < 10**9:  # a record that somebody made up
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s"


def moment(text: str) -> str:
    """A time as ISO 8601 writes it; with its zone, if it names one."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return small(text, 40)
    return safe(f"{at:%Y-%m-%d %H:%M:%S} {at:%Z}".strip())


def count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def first_line(text: str, most: int) -> str:
    lines = redact_text(text.lstrip()[: most + KEY]).splitlines()
    return short(lines[0].rstrip(), most) if lines else ""


def short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def small(text: str, most: int = 200) -> str:
    """A name, an id, a word or two."""
    return safe(short(redact_text(text[: most + KEY]), most))


def safe(text: str) -> str:
    return escape(printable_lines(text))
