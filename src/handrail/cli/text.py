"""Values as people read them on a terminal: safe, short, and in their own time zone. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from handrail.core.display import (
    builtins as builtins,
    count_text as count_text,
    duration_text as duration_text,
    inline as inline,
    printable as printable,
    printable_lines as printable_lines,
    short as short,
)


def spread(value: Any) -> str:
    """A JSON value over several lines, as it is; text as text."""
    if isinstance(value, str):
        return printable_lines(value)
    return printable(json.dumps(builtins(value), indent=2, ensure_ascii=False), keep="\n")


def to_json(value: Any) -> str:
    """One line of JSON in ASCII, so that no letter of it can steer a terminal or turn the writing around."""
    return json.dumps(builtins(value), allow_nan=False)


def day_and_time(at: int, utc: bool) -> str:
    return _moment(at, utc, lambda time: f"{time:%Y-%m-%d %H:%M:%S} {time:%Z}")


def time_of_day(at: int, utc: bool) -> str:
    return _moment(at, utc, lambda time: f"{time:%H:%M:%S}")


def day(at: int, utc: bool) -> str:
    return _moment(at, utc, lambda time: f"{time:%Y-%m-%d}")


def dashed(number: int) -> str:
    """A number in a table; none is a dash, so that the others stand out."""
    return f"{number:,}" if number else "-"


def _moment(at: int, utc: bool, spell: Callable[[datetime], str]) -> str:
    try:
        moment = datetime.fromtimestamp(at / 1000, UTC)
        return spell(moment if utc else moment.astimezone())
    except (OverflowError, ValueError, OSError):
        return f"{at} ms"  # a time that a damaged journal claims
