"""Numbers as people read them. Pure."""

from __future__ import annotations


def duration_text(microseconds: int) -> str:
    seconds = microseconds / 1e6
    if seconds < 0.001:
        return f"{microseconds} µs"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def count_text(number: int, noun: str) -> str:
    """`1 entry`, `2 entries`."""
    if number != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") and noun not in ("day", "key") else noun + "s"
    return f"{number:,} {noun}"
