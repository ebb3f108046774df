"""Numbers as people write them: `1.234,50 €`, `$1,234.50`, `twelve`, and not the parts of dates, times and ids."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from handrail.execute.origins.word_sets import word_set

_NUMBER = re.compile(
    r"(?<![\w.,:/@\-])(?:(?<![\w])[-+])?(?P<number>\d{1,3}(?:[.,'’ \u00a0\u202f]\d{3})+(?:[.,]\d+)?(?!\d)"
    r"|\d+(?:[.,]\d+)?)"
    r"(?P<unit>\s?%|\s?(?:am|pm|a\.m\.|p\.m\.|uhr|h|hours?|hrs?|min|minutes?|minuten|stunden?|days?|tage?)\b"
    r"|(?:st|nd|rd|th)\b|(?:eur|usd|gbp|chf|x|k|kg|g|l|ml|m)\b)?(?![\w@]|[.,:/\-]\w)",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"(?:#|\b(?:order|issue|ticket|invoice|request|pull|pr|number|no\.?|nr\.?|account|room|id|mail|page|version|bestellung"
    r"|rechnung|konto|nummer)\s*#?)\s*$",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"\s*[-+]?[0-9]+(?:\.[0-9]+)?\s*")
_LIMIT = re.compile(r"\b(?:than|under|below|above|unter|als)\s*[€$£]?\s*$", re.IGNORECASE)
_SUM_OF = re.compile(
    r"\b(?:payment|transfer|amount|sum|donation|refund|fee|credit|tip|betrag|zahlung|überweisung)\s+(?:of|von|über)\s*$",
    re.IGNORECASE,
)
_MONEY = re.compile(
    r"[€$£¥]|\b(?:eur|usd|gbp|chf|jpy|euros?|dollars?|pounds?|francs|franken|yen|cents?)\b", re.IGNORECASE
)
_TIMES = word_set("am pm a.m. p.m. uhr h hour hours hr hrs min minute minutes minuten stunde stunden")
_DATES = word_set("st nd rd th day days tag tage")
_WORDS: dict[str, int] = {
    word: number
    for number, words in enumerate(
        (
            "zero null", "one once eins", "two twice couple pair zwei zweimal", "three drei", "four vier", "five fünf",
            "six sechs", "seven sieben", "eight acht", "nine neun", "ten zehn", "eleven elf",
            "twelve dozen zwölf dutzend",
            "thirteen dreizehn", "fourteen vierzehn", "fifteen fünfzehn", "sixteen sechzehn", "seventeen siebzehn",
            "eighteen achtzehn", "nineteen neunzehn", "twenty zwanzig",
        )
    )
    for word in words.split()
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "hundred": 100, "thousand": 1000}  # fmt: skip


class WrittenNumbers:
    """The numbers of a text. One that stands for a time, a percentage or a day is none of an amount."""

    __slots__ = ("has_money", "others", "plain", "references")

    def __init__(self) -> None:
        self.plain: set[Decimal] = set()
        self.others: set[Decimal] = set()
        """Of times, days and percentages, and the other reading of `1.234`, which nobody means by an amount."""
        self.references: set[Decimal] = set()
        """That name something, as `order 1001`, or that something is compared with, as `less than 8`."""
        self.has_money: bool = False
        """Whether a number stands beside a currency."""

    def read(self, text: str) -> None:
        """Take in the numbers of a text in which dates and times of day are blanked out."""
        for found in _NUMBER.finditer(text):
            unit = (found["unit"] or "").strip().lower()
            readings = number_readings(found["number"])
            if unit == "k":
                readings = {each * 1000 for each in readings}
            before = text[max(0, found.start() - 24) : found.start()]
            named = _REFERENCE.search(before)
            if (named is not None and named[0].strip().lower() != "order") or _LIMIT.search(before):
                self.references |= readings
            elif named is not None or unit in _TIMES or unit in _DATES or unit == "%":  # `order 20 of them`
                self.others |= readings
            else:
                whole = {each for each in readings if each == each.to_integral_value()} or readings
                self.plain |= whole
                self.others |= readings - whole
                beside = text[max(0, found.start() - 5) : found.end() + 9]
                self.has_money = self.has_money or bool(_MONEY.search(beside) or _SUM_OF.search(before))
        for word in re.findall(r"[^\W\d_]+", text.lower()):
            if word in _WORDS:
                self.plain.add(Decimal(_WORDS[word]))

    def has(self, value: Decimal, *, amount: bool, counts: bool = False) -> bool:
        """Whether a number was said; of an amount, not as a time or a day; of what counts, not as a name."""
        if value in self.plain or (not amount and value in self.others):
            return True
        return not amount and not counts and value in self.references


def number_readings(written: str) -> set[Decimal]:
    """What a number may mean: `1.234` is one of two, depending on who writes it."""
    bare = re.sub(r"['’\s\u00a0\u202f]", "", written)
    marks = [each for each in bare if each in ".,"]
    if not marks:
        return {Decimal(bare)}
    last = marks[-1]
    if len(set(marks)) == 2:
        return {Decimal(bare.replace("," if last == "." else ".", "").replace(last, "."))}
    if len(marks) > 1:
        return {Decimal(bare.replace(last, ""))}
    whole, part = bare.split(last)
    readings = {Decimal(f"{whole}.{part}")}
    if len(part) == 3 and len(whole) <= 3 and not whole.startswith("0"):
        readings.add(Decimal(whole + part))
    return readings


def as_number(value: object) -> Decimal | None:
    """A number, or a text that is nothing but one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return Decimal(str(value))
        except InvalidOperation:
            return None
    if isinstance(value, str) and len(value) <= 40 and _PLAIN.fullmatch(value):
        return Decimal(value.strip())
    return None
