"""The types whose JSON is one string, number, boolean or null: a row for each, with all that is known of it."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from types import NoneType
from typing import Any
from uuid import UUID

from handrail.core.redact import Secret

Convert = Callable[[Any], Any]
"""From a JSON value that passed the schema to the value of the type.

Raises:
    ValueError, TypeError: The type itself refuses the value, with words for the model.
"""

# How well a type fits a JSON value, for a choice between several: lower is tried first.
SPECIFIC, WIDENED, GENERAL = 1, 2, 3


@dataclass(frozen=True, slots=True)
class ScalarFacts:
    schema: Mapping[str, Any]
    kinds: Mapping[type, int]
    """The Python types of the JSON values it takes, each with how well it fits."""
    convert: Convert | None = None
    limits_need_value: bool = field(default=False, kw_only=True)
    """Whether limits on it can only be checked on the converted value."""


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError("the number is too large; use one below 1e308") from None


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_DURATION = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(
            f"{text!r} is not a duration in weeks, days, hours, minutes and seconds; write it as P1DT2H30M"
        )
    try:
        return timedelta(**{unit: float(number) for unit, number in found.groupdict().items() if number})
    except OverflowError:
        raise ValueError(f"the duration {text!r} is too long") from None


_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_TEXT = {"type": "string"}


def _text(convert: Convert | None = None) -> ScalarFacts:
    return ScalarFacts(_TEXT, {str: GENERAL}, convert)


def _named(kind: str, convert: Convert) -> Convert:
    """The refusal with the value in it: Python's own words do not say which of several dates they mean."""

    def named(text: Any) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is not a {kind}: {error}") from None

    return named


def _formatted(name: str, convert: Convert, *, ordered: bool = True) -> ScalarFacts:
    return ScalarFacts({"type": "string", "format": name}, {str: SPECIFIC}, convert, limits_need_value=ordered)


SCALARS: dict[type, ScalarFacts] = {
    str: _text(),
    Secret: ScalarFacts({"type": "string", "writeOnly": True}, {str: GENERAL}, Secret),
    Path: _text(Path),
    PurePath: _text(PurePath),
    PurePosixPath: _text(PurePosixPath),
    PureWindowsPath: _text(PureWindowsPath),
    bytes: ScalarFacts({"type": "string", "contentEncoding": "base64"}, {str: GENERAL}, _bytes, limits_need_value=True),
    # `int` and `float` are their own converters: 1.0 is a JSON integer, and 1 a JSON number.
    int: ScalarFacts({"type": "integer"}, {int: SPECIFIC, float: GENERAL}, int),
    float: ScalarFacts({"type": "number"}, {float: SPECIFIC, int: GENERAL}, _float),
    bool: ScalarFacts({"type": "boolean"}, {bool: SPECIFIC}),
    NoneType: ScalarFacts({"type": "null"}, {NoneType: SPECIFIC}),
    Decimal: ScalarFacts(
        {"type": ["string", "number"], "pattern": _NUMBER},
        {str: SPECIFIC, int: WIDENED, float: WIDENED},
        lambda value: Decimal(str(value)),
        limits_need_value=True,
    ),
    UUID: _formatted("uuid", _named("UUID", UUID), ordered=False),
    datetime: _formatted("date-time", _named("date with time", lambda text: datetime.fromisoformat(text.upper()))),
    date: _formatted("date", _named("date", date.fromisoformat)),
    time: _formatted("time", _named("time", lambda text: time.fromisoformat(text.upper()))),
    timedelta: _formatted("duration", _duration),
}
