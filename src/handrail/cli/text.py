"""Values as people read them on a terminal: safe, short, and in their own time zone. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from handrail.core.display import (
    count_text as count_text,
    duration_text as duration_text,
    printable as printable,
    printable_lines as printable_lines,
)

_WRITABLE = 10**4_000
"""Python writes no integers of more than 4,300 digits as decimals."""


def short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def inline(value: Any, most: int = 60) -> str:
    """A JSON value in one short line; an object by its fields."""
    if isinstance(value, dict):
        return short(" ".join(f"{printable(key)}={_value(item, most)}" for key, item in value.items()), most)
    return _value(value, most)


def spread(value: Any) -> str:
    """A JSON value over several lines, as it is; text as text."""
    if isinstance(value, str):
        return printable_lines(value)
    return printable(json.dumps(builtins(value), indent=2, ensure_ascii=False), keep="\n")


def to_json(value: Any) -> str:
    """One line of JSON in ASCII, so that no letter of it can steer a terminal or turn the writing around."""
    return json.dumps(builtins(value), allow_nan=False)


def builtins(value: Any) -> Any:
    """The value in types that JSON has; NaN and the infinities by their names, integers without end in hex."""
    return _finite(msgspec.to_builtins(value, str_keys=True))


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


def _value(value: Any, most: int) -> str:
    # A long text is cut first: an argument may be a whole file.
    value = short(value, 4 * most) if isinstance(value, str) else value
    return printable(short(json.dumps(builtins(value), ensure_ascii=False), most))


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case int() if abs(value) >= _WRITABLE:
            return hex(value)
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value
