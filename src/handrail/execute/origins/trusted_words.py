"""What a person and the program said in a run, and whether a value stands in it.

A value counts as said only if it stands there whole: not as a part of a longer word, address, number or time. Nothing
is decoded and no letter is taken for another that looks like it, so that what an outsider writes in any encoding is
never taken for the person's word.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise

from handrail.execute.origins.word_sets import word_set
from handrail.execute.origins.written_dates import Moment, WrittenDates, as_moment
from handrail.execute.origins.written_numbers import WrittenNumbers, as_number

MOST = 400_000
"""Characters of trusted words that are kept, the latest; what is dropped is no origin any more."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
_JOINING = ".-_@/:+%~#=&'\\"
_CASED = re.compile(r"[^\W\d_]+(?:[\s'’.-]+[^\W\d_]+)*\.?|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_CURRENCIES = {"€": "eur", "euro": "eur", "euros": "eur", "$": "usd", "dollar": "usd", "dollars": "usd",
               "£": "gbp", "pound": "gbp", "pounds": "gbp", "franken": "chf", "francs": "chf",
               "¥": "jpy", "yen": "jpy"}  # fmt: skip
_ADDRESS = re.compile(r"https?://\S+|[\w.+-]+@[\w.-]+\w")
_QUOTED = re.compile(r"`[^`\n]+`|\"[^\"\n]+\"|[“„][^”“\n]+[”“]|«[^»\n]+»")
_TELLS_DAY = re.compile(r"\b(?:today|current\s+(?:date|day|time)|date\s+is|it\s+is|now|heute|datum)\b", re.IGNORECASE)
_PARTS = re.compile(r"[\s_,;()\-]+")
_DOUBLING = ("ing", "ers", "er", "ed")
_LIST_MARK = re.compile(r"(?:^|[.:;!?\n])\s*(\d{1,2})[.)](?=\s+[\"'“„`(]?[^\W\d_])")
_LONG_STEM = 6
"""Letters that two words must begin with to be of the same origin."""
_MEANT = {
    "yes": "accept confirm attend join zusagen annehmen",
    "no": "decline reject refuse cannot can't absagen ablehnen",
    "accepted": "accept yes",
    "declined": "decline no cannot",
    "closed": "close resolve done finish schließe",
    "resolved": "close resolve done",
    "done": "finish complete close",
    "completed": "finish complete done",
    "open": "reopen",
    "frozen": "freeze block lock sperre",
    "blocked": "block freeze lock",
    "active": "activate unfreeze unblock unlock reactivate",
}
"""Words of programs for what people say in other words."""
_UNIVERSAL = word_set(
    "all every each everyone everybody everything both whole entire alle allen jede jeden jedes sämtliche beide"
)
STOP = word_set(
    """the a an and or of to in on at for from with by is are was be it its this that these those my me mine your
    you our we us his her him their them they i he she as if not no do does did done have has had can could
    will would should may might must shall please about into out up down over under again then than so but what
    which who whom when where why how there here any some new last latest first next one two get got make let
    mail mails email emails message messages file files der die das den dem des ein eine einen einem einer und
    oder von zu im am an auf für mit bei ist sind war es mein meine meinen ich du wir ihr sie er nicht bitte
    alle all date time name list item items send read http https www com org net"""
)


@lru_cache(4096)
def stem(word: str) -> str:
    """A word without the endings that people add to it."""
    word = re.sub(r"['’]s?$", "", word.casefold())
    for ending in ("ies", "ing", "ers", "er", "es", "ed", "en", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            bare = word[: -len(ending)]
            if ending in _DOUBLING and len(bare) > 3 and bare[-1] == bare[-2] and bare[-1] in "bdgkmnprt":
                return bare[:-1]  # `shipped` is of `ship`
            return bare + ("y" if ending == "ies" else "")
    return word


def words_of(text: str) -> set[str]:
    """The words of a text, in small letters."""
    return {re.sub(r"['’]s$", "", word.casefold()) for word in _WORD.findall(text)}


def stems_of(text: str) -> set[str]:
    """The words of a text without their endings, and without those that tell nothing."""
    return {stem(word) for word in words_of(text) if word not in STOP}


class TrustedWords:
    """The words of the person and of the program. They are read when they are first needed."""

    __slots__ = (
        "_by_person",
        "_dated",
        "_dates",
        "_days",
        "_flat",
        "_folded",
        "_naming",
        "_numbers",
        "_pairs",
        "_said",
        "_stems",
        "_texts_for_pairs",
        "_times",
        "_unread",
        "_words",
    )

    def __init__(self) -> None:
        self._said: list[tuple[str, bool]] = []
        """Each text, and whether a person said it."""
        self._unread: list[tuple[str, bool]] = []
        self._times: list[int] = []
        self._texts_for_pairs: list[str] = []
        self._pairs: set[tuple[str, str]] = set()
        self._naming: set[str] = set()
        self._words: set[str] = set()
        """Of the person alone."""
        self._stems: set[str] = set()
        self._numbers = WrittenNumbers()
        self._dates = WrittenDates()
        self._dated: set[str] = set()
        self._days: set[date] = set()
        """On which a text may have been written."""
        self._by_person: str = ""
        self._flat: str = ""
        self._folded: str = ""

    def add(self, text: str, *, person: bool, at: int = 0) -> None:
        """Take in a text. Of very long ones only the end counts."""
        text = text[-MOST:]
        self._unread.append((without_list_numbers(text) if person else text, person))
        if at > 0:
            self._times.append(at)

    def written_on(self, day: date) -> None:
        """Let a text without a date mean this day by `today`."""
        self._days.add(day)
        self._numbers, self._dates = WrittenNumbers(), WrittenDates()
        self._unread, self._said = [*self._said, *self._unread], []

    @property
    def has_person(self) -> bool:
        """Whether a person's words are known at all."""
        return any(person for _, person in (*self._said, *self._unread))

    def read(self) -> None:
        """Take in what was said since this was last asked."""
        if not self._unread:
            return
        new, self._unread = self._unread, []
        self._days.update(datetime.fromtimestamp(at / 1000, UTC).date() for at in self._times)
        self._times.clear()
        for text, person in new:
            plain = WrittenDates()
            if not person:
                plain.read(text, self._days)
                self._days |= {day for day in plain.days if len(plain.days) <= 4 and _TELLS_DAY.search(text)}
        for text, person in new:
            rest = self._dates.read(text, self._days)
            self._numbers.read(rest)
            if person:
                self._words |= words_of(text)
                self._dated |= {word for word in words_of(text) - words_of(rest) if word.isdecimal()}
                self._texts_for_pairs.append(text)
                self._naming |= stems_of(_ADDRESS.sub(" ", text))
                self._naming |= {part for part in _ADDRESS.findall(text) if part}
            self._said.append((text, person))
        self._by_person = "\n".join(text for text, person in self._said if person)
        self._stems = {stem(word) for word in self._words}
        self._flat = "\n".join(plain_form(text) for text, _ in self._said)[-MOST:]
        self._folded = self._flat.casefold()

    @property
    def words(self) -> set[str]:
        """Every word that the person said, in lower case."""
        return self._words

    @property
    def dated(self) -> set[str]:
        """What stands in digits only in days and times."""
        return self._dated

    @property
    def pairs(self) -> set[tuple[str, str]]:
        """Words of the person, each with one that stands near it, in small letters."""
        texts, self._texts_for_pairs = self._texts_for_pairs, []
        for text in texts:
            words = [word.casefold() for word in _WORD.findall(text)]
            self._pairs.update(pairwise(words))
            self._pairs.update(zip(words, words[2:], strict=False))
            for far in (1, 2, 3):  # `which case is the oldest`
                self._pairs.update(zip(words[far:], words, strict=False))
        return self._pairs

    @property
    def naming(self) -> set[str]:
        """The stems of the person's words that may name something: what stands in an address does only as a whole."""
        return self._naming

    @property
    def is_universal(self) -> bool:
        """Whether the person speaks of all of something."""
        return not _UNIVERSAL.isdisjoint(self._words)

    def says_all_of(self, words: frozenset[str]) -> bool:
        """Whether the person speaks of all of what one of these words means, as `all the pages`."""
        stems = set(map(stem, words))
        return any(first in _UNIVERSAL and stem(then) in stems for first, then in self.pairs)

    def has_stem_of(self, words: frozenset[str] | set[str]) -> bool:
        """Whether the person said one of these words, in some form."""
        return any(word in self._words or stem(word) in self._stems for word in words)

    @property
    def said_by_person(self) -> str:
        """What the person said, message by message."""
        return self._by_person

    def has_related(self, word: str) -> bool:
        """Whether the person said a word of the same origin, as `approval` for `approve`."""
        if len(word) < _LONG_STEM or not word.isalpha():
            return False
        least = max(_LONG_STEM, len(word) - 1)
        return any(each[:least] == word[:least] and len(each) <= len(word) + 3 for each in self._words)

    # ── one value ────────────────────────────────────────────────────────────────────

    def has(
        self, value: object, *, amount: bool = False, counts: bool = False, scale: int = 1, place: bool = False
    ) -> bool:
        """Whether a value was said, whole.

        Args:
            value: Text or a number.
            amount: A number that was said as a time is none.
            counts: It says how many or how much; then a number that names something is none.
            scale: How many of the argument's units make one, as 100 cents.
            place: It names where something goes; then its parts do not count, if they were said apart.
        """
        number = as_number(value)
        if number is not None and not (isinstance(value, str) and len(value) > 15):
            return self._numbers.has(number, amount=amount, counts=counts) or (
                scale > 1 and self._numbers.has(number / Decimal(scale), amount=True)
            )
        if not isinstance(value, str):
            return False
        text = plain_form(value)
        if self._has_text(text):
            return not place or not self._is_only_part_of_quoted(text)
        if not place and (self._has_parts(text) or self._is_meant(text)):
            return True
        return len(text) >= 8 and any(map(str.isdigit, text)) and self._has_grouped(text)

    @property
    def has_money(self) -> bool:
        """Whether the person or the program said an amount of money."""
        return self._numbers.has_money

    @property
    def has_time(self) -> bool:
        """Whether a time of day was said."""
        return bool(self._dates.minutes)

    def has_minutes(self, moment: Moment) -> bool:
        """Whether the time of day of a moment was said."""
        return moment.minutes is not None and moment.minutes in self._dates.minutes

    @property
    def has_whole_number(self) -> bool:
        """Whether the person said a number in digits that may be the name of something, as `issue 15`."""
        return any(word.isdecimal() for word in self._words)

    def count(self, text: str) -> int:
        """The number of times a text was said as a whole."""
        return len(re.findall(rf"(?<!\w){re.escape(text)}(?!\w)", self._flat))

    def has_moment(self, moment: Moment) -> bool:
        """Whether a day and a time of day were said, in any notation."""
        day = moment.day is None or moment.day in self._dates.days
        if not day and not self._dates.days and moment.minutes is not None:
            day = moment.day in self._days and moment.minutes in self._dates.minutes  # `at 3 pm` is today
        time = moment.minutes is None or moment.minutes in self._dates.minutes
        if not time and moment.day is not None and moment.minutes in (0, 1439):
            time = True  # a whole day
        return day and time

    def has_day(self, moment: Moment) -> bool:
        """Whether the day of a moment was said."""
        return moment.day is not None and moment.day in self._dates.days

    def has_end(self, start: Moment, end: Moment) -> bool:
        """Whether what begins at a moment that was said may end at this one: after the time that was said, or after a
        usual one if none was."""
        length = end.minutes_after(start)
        return length is not None and (length in self._dates.durations if self._dates.durations else length in _USUAL)

    def has_duration(self, minutes: Decimal) -> bool:
        """Whether a time of so many minutes was said; without a word on it, a usual one counts."""
        known: set[int] | frozenset[int] = self._dates.durations or _USUAL
        return minutes in known

    def has_exactly(self, text: str) -> bool:
        """Whether a text was said in these letters, large and small."""
        return stands_whole(text, self._flat)

    def has_run_together(self, word: str) -> bool:
        """Whether a word was said, with or without spaces and signs, as `won't fix` for `wontfix`."""
        letters = re.sub(r"[\W_]+", "", word.casefold())
        return len(letters) >= _LONG_STEM and letters in re.sub(r"[\W_]+", "", self._folded)

    def _is_only_part_of_quoted(self, text: str) -> bool:
        """Whether it was said only within quotes, as a part of what stands there: that is one value."""
        if not any(mark in self._flat for mark in '`"“„«'):
            return False
        folded = text.casefold()
        quoted = [found.group()[1:-1].strip() for found in _QUOTED.finditer(self._folded)]
        if folded in quoted or not any(folded in each for each in quoted):
            return False
        return not stands_whole(folded, _QUOTED.sub(" ", self._folded))

    def _has_text(self, text: str) -> bool:
        if not text:
            return False
        if stands_whole(text, self._flat):
            return True
        return bool(_CASED.fullmatch(text)) and _is_ordinary(text) and stands_whole(text.casefold(), self._folded)

    def _has_parts(self, text: str) -> bool:
        """Whether every word and number of a short text was said by the person."""
        if len(text) > 200 or re.search(r"[@/\\:.%]", re.sub(r"(?<=\d)\.(?=\d)", "", text)):
            return False
        parts = [part for part in _PARTS.split(text) if part]
        if not parts or len(parts) > 12:
            return False
        return all(self._has_part(part) for part in parts)

    def _is_meant(self, text: str) -> bool:
        """Whether a word was said in another form, as `close` for `closed`, or `decline` for `no`."""
        if not text.isalpha() or text in STOP - _MEANT.keys():
            return False
        return self.has_stem_of({text.casefold(), *_MEANT.get(text.casefold(), "").split()})

    def _has_part(self, part: str) -> bool:
        if (number := as_number(part)) is not None:
            return self._numbers.has(number, amount=False)
        folded = re.sub(r"['’]s$", "", part.casefold())
        if folded in self._words:
            return True
        money = _CURRENCIES.get(folded, folded)
        if money in _CURRENCIES.values():
            return any(sign in self._folded for sign, code in (*_CURRENCIES.items(), (money, money)) if code == money)
        return False

    def _has_grouped(self, text: str) -> bool:
        """Whether it was said in groups, as people write card numbers."""
        bare = re.sub(r"[\s.\-]", "", text)
        if not bare.isalnum() or len(bare) > 64:
            return False
        pattern = r"(?<![\w])" + r"[ \-.\u00a0]?".join(map(re.escape, bare)) + r"(?![\w])"
        return any(_is_whole(self._flat, *found.span()) for found in re.finditer(pattern, self._flat))


_USUAL = frozenset({15, 30, 45, 60, 90, 120})


def without_list_numbers(text: str) -> str:
    """A text without the numbers that only count the items of a list in it, as `1. … 2. …`: they mean nothing."""
    marks: list[tuple[int, int]] = []
    for found in _LIST_MARK.finditer(text):
        if int(found[1]) == len(marks) + 1:
            marks.append(found.span(1))
    if len(marks) < 2:
        return text
    for start, end in reversed(marks):
        text = f"{text[:start]}{text[end + 1 :]}"
    return text


def plain_form(text: str) -> str:
    """A text with its spaces as one, and its accents in one spelling. Nothing else is changed."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.split())


def stands_whole(value: str, text: str) -> bool:
    """Whether a value stands in a text, and not as a part of something longer."""
    at = text.find(value)
    while at >= 0:
        if _is_whole(text, at, at + len(value)):
            return True
        at = text.find(value, at + 1)
    return False


def _is_whole(text: str, start: int, end: int) -> bool:
    first, last = text[start], text[end - 1]
    if start and (text[start - 1] in "/\\~" or _joins(text[start - 1], text[start - 2] if start > 1 else " ", first)):
        return False
    return end == len(text) or not _joins(text[end], text[end + 1] if end + 1 < len(text) else " ", last)


def _joins(beside: str, beyond: str, edge: str) -> bool:
    """Whether a letter beside a value makes it a part of something longer."""
    if beside.isalnum() or beside == "_" or unicodedata.category(beside) in ("Mn", "Me", "Mc", "Cf"):
        return edge.isalnum() or edge == "_" or edge in _JOINING or unicodedata.category(beside) in ("Mn", "Me", "Cf")
    if beside in "'’" and edge.isalnum():
        return False
    return beside in _JOINING and (beyond.isalnum() or beyond in "/\\_~")


def _is_ordinary(text: str) -> bool:
    """Whether its capitals are those of names and beginnings: then they make no difference."""
    return all(word.islower() or word.isupper() or word.istitle() for word in re.findall(r"[^\W\d_]+", text))


__all__ = ["STOP", "TrustedWords", "as_moment", "plain_form", "stands_whole", "stem", "words_of"]
