"""Days, times of day and durations as people write them: `tomorrow at 3 pm`, `5. März`, `an hour`."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import date, timedelta

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar", "february feb februar", "march mar märz mrz", "april apr", "may mai", "june jun juni",
            "july jul juli", "august aug", "september sep sept", "october oct oktober okt", "november nov",
            "december dec dezember dez",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday mon montag", "tuesday tue dienstag", "wednesday wed mittwoch", "thursday thu donnerstag",
            "friday fri freitag", "saturday sat samstag", "sunday sun sonntag",
        )
    )
    for name in names.split()
}  # fmt: skip
_NEAR = {
    "today": 0,
    "tonight": 0,
    "heute": 0,
    "tomorrow": 1,
    "morgen": 1,
    "übermorgen": 2,
    "yesterday": -1,
    "gestern": -1,
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_ISO = re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_DOTTED = re.compile(r"(?<![\d.])(\d{1,2})([./])(\d{1,2})(?:\2(\d{4}|\d{2})|\.(?!\d))(?![\d/])")
_DAY_MONTH = re.compile(rf"(?<!\w)(\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?({_MONTH})\b\.?,?(?:\s+(\d{{4}}))?", re.I)
_MONTH_DAY = re.compile(rf"\b({_MONTH})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(\d{{4}}))?", re.I)
_DAYS_MONTH = re.compile(
    rf"(?<![\w.,:/-])(\d{{1,2}})(?:st|nd|rd|th|\.)?\s*(?:[-–]|to|till?|until|and|through|bis|und)\s*"
    rf"(?=\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?({_MONTH})\b\.?,?(?:\s+(\d{{4}}))?)",
    re.I,
)
_MONTH_DAYS = re.compile(
    rf"\b({_MONTH})\.?\s+\d{{1,2}}(?:st|nd|rd|th)?\s*(?:[-–]|to|till?|until|and|through)\s*(\d{{1,2}})(?:st|nd|rd|th)?\b"
    r"(?![:.]\d|\s*(?:am|pm))(?:,?\s+(\d{4}))?",
    re.I,
)
_DAY_ONLY = re.compile(r"(?<!\w)(\d{1,2})(?:st|nd|rd|th)\b", re.I)
_IN = re.compile(r"\bin\s+(\d{1,3}|an?|one|two|three|zwei|drei|eine[rnm]?)\s+(days?|weeks?|tag(?:en)?|wochen?)\b", re.I)
_CLOCK = re.compile(
    r"(?<![\d:.])([01]?\d|2[0-3])[:.h]([0-5]\d)(?::[0-5]\d)?(?:\s*(am|pm|a\.m\.|p\.m\.))?(?![\d:])", re.I
)
_HOUR = re.compile(r"(?<![\w:.])(\d{1,2})\s*(am|pm|a\.m\.|p\.m\.|uhr|h|o'clock)(?!\w)", re.I)
_BARE_HOUR = re.compile(
    r"\b(?:at|from|to|until|till|by|um|ab|bis|von|between|-|–)\s*(\d{1,2})\b(?![\w€$%:.,/]*\d|\s*(?:€|%|eur|usd))", re.I
)
_HOURS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_PAST = re.compile(rf"\b(quarter past|half past|quarter to)\s+(\d{{1,2}}|{'|'.join(_HOURS)})\b", re.I)
_NAMED = {"noon": 720, "midday": 720, "mittag": 720, "midnight": 0, "mitternacht": 0}
_NUMBERS = {"a": 1.0, "an": 1.0, "one": 1.0, "eine": 1.0, "einer": 1.0, "half a": 0.5, "half an": 0.5, "two": 2.0,
            "three": 3.0,
            "halbe": 0.5, "zwei": 2.0, "drei": 3.0, "one and a half": 1.5}  # fmt: skip
_SPAN = re.compile(
    r"(?<!\w)(\d+(?:[.,]\d+)?|half an?|one and a half|an?|one|two|three|eine[r]?|halbe|zwei|drei)[\s-]*"
    r"(hours?|hrs?|h|minutes?|mins?|stunden?|minuten?)(?!\w)",
    re.I,
)
_VALUE = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?", re.ASCII
)
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::\d{2})?", re.ASCII)


class Moment:
    """A day, a time of day in minutes, or both, as programs write them."""

    __slots__ = ("day", "minutes")

    def __init__(self, day: date | None, minutes: int | None) -> None:
        self.day: date | None = day
        self.minutes: int | None = minutes

    @property
    def key(self) -> tuple[str, date | None, int | None]:
        """The same for two notations of one moment."""
        return "moment", self.day, self.minutes

    def minutes_after(self, other: Moment) -> int | None:
        """The minutes from another moment of the same kind to this one."""
        if self.minutes is None or other.minutes is None or (self.day is None) != (other.day is None):
            return None
        days = 0 if self.day is None or other.day is None else (self.day - other.day).days
        return days * 1440 + self.minutes - other.minutes


def as_moment(value: object) -> Moment | None:
    """A text that is nothing but a day or a time in the notation of programs."""
    if not isinstance(value, str) or not 4 <= len(value) <= 40 or not value.lstrip()[:1].isdigit():
        return None
    if found := _VALUE.fullmatch(value.strip()):
        day = _day(int(found[1]), int(found[2]), int(found[3]))
        return None if day is None else Moment(day, None if found[4] is None else int(found[4]) * 60 + int(found[5]))
    if (found := _TIME.fullmatch(value.strip())) and int(found[1]) < 24 and int(found[2]) < 60:
        return Moment(None, int(found[1]) * 60 + int(found[2]))
    return None


class WrittenDates:
    """The days, times and durations of texts."""

    __slots__ = ("days", "durations", "minutes")

    def __init__(self) -> None:
        self.days: set[date] = set()
        self.minutes: set[int] = set()
        self.durations: set[int] = set()

    def read(self, text: str, around: Iterable[date]) -> str:
        """Take in a text that was written on one of these days; the text with days and times blanked out."""
        today = tuple(around)
        for found in _MONTH_DAYS.finditer(text):  # `December 10 to 12`
            self._take(found, "mdy", today)
        text = _DAYS_MONTH.sub(lambda found: self._take(found, "dmy", today), text)  # `10 to 12 December`
        for pattern, order in ((_ISO, "ymd"), (_MONTH_DAY, "mdy"), (_DAY_MONTH, "dmy")):
            text = pattern.sub(lambda found, order=order: self._take(found, order, today), text)  # type: ignore[misc]
        text = _DOTTED.sub(lambda found: self._dotted(found, today), text)
        for found in _DAY_ONLY.finditer(text):
            self._day_of_month(int(found[1]), today)
        for word in re.findall(r"[^\W\d_]+", text.lower()):
            if word in _NEAR:
                self.days.update(day + timedelta(_NEAR[word]) for day in today)
            elif word in _WEEKDAYS:
                for day in today:
                    ahead = (_WEEKDAYS[word] - day.weekday()) % 7
                    self.days.update((day + timedelta(ahead), day + timedelta(ahead + 7)))
            elif word in _NAMED:
                self.minutes.add(_NAMED[word])
        for found in _IN.finditer(text):
            count = int(found[1]) if found[1].isdigit() else int(_NUMBERS.get(found[1].lower(), 1))
            step = 7 if found[2][0].lower() == "w" else 1
            self.days.update(day + timedelta(count * step) for day in today)
        for found in _SPAN.finditer(text):
            size = float(found[1].replace(",", ".")) if found[1][0].isdigit() else _NUMBERS[found[1].lower()]
            self.durations.add(round(size * (1 if found[2][0].lower() == "m" else 60)))
        for found in _PAST.finditer(text):
            hour = int(found[2]) if found[2].isdigit() else _HOURS.index(found[2].lower()) + 1
            minutes = hour * 60 + {"quarter past": 15, "half past": 30, "quarter to": -15}[found[1].lower()]
            self.minutes.update((minutes % 1440, (minutes + 720) % 1440))
        text = _CLOCK.sub(self._clock, text)
        for found in _HOUR.finditer(text):
            self._hour(int(found[1]), 0, found[2])
        for found in _BARE_HOUR.finditer(text):
            self._hour(int(found[1]), 0, "?")
        return text

    def _take(self, found: re.Match[str], order: str, today: tuple[date, ...]) -> str:
        parts = {key: found[at + 1] for at, key in enumerate(order)}
        month = int(parts["m"]) if parts["m"].isdigit() else _MONTHS[parts["m"].lower()]
        self._add(parts["y"], month, int(parts["d"]), today)
        return " " * len(found[0])

    def _dotted(self, found: re.Match[str], today: tuple[date, ...]) -> str:
        first, second, year = int(found[1]), int(found[3]), found[4]
        if year is not None and len(year) == 2:
            year = f"20{year}"
        if not (1 <= first <= 31 and 1 <= second <= 31):
            return found[0]
        if found[2] == "." or first > 12:
            self._add(year, second, first, today)
        else:
            self._add(year, first, second, today)
            self._add(year, second, first, today)
        return " " * len(found[0])

    def _add(self, year: str | None, month: int, day: int, today: tuple[date, ...]) -> None:
        years = [int(year)] if year else sorted({each.year + step for each in today for step in (-1, 0, 1)})
        self.days.update(filter(None, (_day(each, month, day) for each in years)))

    def _day_of_month(self, number: int, today: tuple[date, ...]) -> None:
        for day in today:
            for ahead in (0, 1):
                year, month = divmod(day.year * 12 + day.month - 1 + ahead, 12)
                if 1 <= number <= monthrange(year, month + 1)[1]:
                    self.days.add(date(year, month + 1, number))

    def _clock(self, found: re.Match[str]) -> str:
        self._hour(int(found[1]), int(found[2]), found[3] or "")
        return " " * len(found[0]) if ":" in found[0] or found[3] else found[0]  # `8.50` may be a price

    def _hour(self, hour: int, minutes: int, half: str) -> None:
        half = half.lower().replace(".", "")
        if half in ("am", "pm"):
            if 1 <= hour <= 12:
                self.minutes.add((hour % 12 + (12 if half == "pm" else 0)) * 60 + minutes)
        elif hour <= 23:
            self.minutes.add(hour * 60 + minutes)
            if half == "?" and 1 <= hour < 12:
                self.minutes.add((hour + 12) * 60)


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
