"""Which of a person's sentences may ask for an effect in words that no table has, and which only want to be told
something.

A rule of thumb, English and German. It is asked only where no known word asks for a tool, and where it is wrong, it
should be so on the side of a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

from handrail.execute.origins.result_records import Record
from handrail.execute.origins.trusted_words import TrustedWords, stem, stems_of, words_of
from handrail.execute.origins.word_sets import word_set
from handrail.execute.origins.written_dates import as_moment
from handrail.execute.origins.written_numbers import WrittenNumbers

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+|\s[-\u2013\u2014]\s")
_CLAUSE = re.compile(r"[,:]\s+(?:and|then|und|dann)?\s*|\s+(?:and|then|und|dann)\s+", re.IGNORECASE)
_POLITE = re.compile(
    r"^(?:(?:please|bitte|hi|hello|hey|hallo|ok|okay|so|and|then|also|now|und|dann|just|kindly|robin)[,!]?\s+|"
    r"(?:can|could|would|will|might)\s+(?:you|we)\s+(?:be\s+so\s+(?:kind|good)\s+(?:as\s+)?to\s+)?|"
    r"(?:would|do)\s+you\s+mind\s+|(?:kannst|könntest|würdest|magst)\s+du\s+|(?:können|könnten|würden)\s+(?:sie|wir)\s+|"
    r"(?:how|what)\s+about\s+|why\s+(?:not|don['’]t\s+(?:you|we))\s+|"
    r"i(?:'d| would)\s+like\s+you\s+to\s+|i\s+(?:want|need)\s+you\s+to\s+|mind\s+)+",
    re.IGNORECASE,
)
_QUESTION_WORDS = word_set(
    """what which who whom whose when where why how is are was were does do did has have had am any anything anyone
    was welche welcher welches wer wem wen wann wo warum wieso weshalb wie ist sind hat haben gibt habe"""
)
"""With which a question begins."""
_READING = word_set(
    """summarise summarize sum show list read check find search look explain compare count describe describes analyse
    analyze tell give see view browse scan review translate inspect examine identify calculate compute estimate report
    overview summary gist recap digest outline brief briefly rundown roundup breakdown lookup watch know understand
    wonder wondering wondered curious understands learn hear
    zusammenfassung zusammenfassen zeig zeige zeigen lies lese lesen liste prüfe prüf suche such finde erkläre
    vergleiche vergleich zähle nenne übersetze überblick kurzfassung wissen verstehen verstehe"""
)
"""Words with which people ask to be told something."""
_TELLING = word_set("give tell show report brief let")
_SHORTLY = re.compile(
    r"\bin (?:short|brief|(?:a|one|two|three|a few|\d+) (?:sentences?|lines?|words?)|plain words|kürze)\b"
    r"|\b(?:two|three|few|\d+) (?:sentences|lines)\b|\b(?:main|key) (?:points|facts)\b|\b(?:kurz|stichpunkte)\b"
    r"|\b(?:don't|do not|didn't) (?:understand|get)\b|\b(?:nobody|no one) (?:here )?(?:knows|understands)\b",
    re.IGNORECASE,
)
_FOR_ME = word_set("i me us we mich mir uns ich wir")
_ASKING = word_set(
    """should must shall needs need want wants needed ought please let may would supposed better
    deserves belongs instead soll sollte muss möchte bitte brauche braucht darf lass"""
)
VAGUE = word_set(
    """add book call change correct do draft end enter file finish fix get give go hand implement integrate land leave
    lade lege let make mach mark move new note open plan put record return right rights set shift show start star take
    teile turn up work sage sag again done"""
)
"""Verbs of the table that people use for too many things to tell that something else was asked for."""
_DETERMINERS = word_set(
    """a an the my your his her its our their this that these those no any some each every of with from for in on at as
    another one two der die das den dem ein eine einen mein meine meinen meiner dein sein ihr im zur zum vom aus von
    mit"""
)
_ABOUT = word_set("in from of about for on per via with at regarding concerning aus von über für zu in zum zur im")
_NAME = r"[^\W\d_][\w.-]*(?:\s+[A-ZÄÖÜ][\w.-]*){0,2}"
_GETS = re.compile(
    r"\b(?i:to|tell|send|give|let|inform|email|mail|ask|forward|notify|write|show|pass|remind|invite|an|zu|sag|schick)"
    rf"\s+(?=[A-ZÄÖÜ])({_NAME})(?!['’]s\b|['’]|[\w-])"
)
_COMES = re.compile(
    rf"(?<!\bto )(?<!\bwith )(?<!\bfor )\b(?=[A-ZÄÖÜ])({_NAME})['’]s\b|\b(?i:from|by|von)\s+(?=[A-ZÄÖÜ])({_NAME})"
)
_COMPARED = re.compile(
    r"\b(?:duplicates?|copy|copies|clone|version|repeat|double|dup)\s+of\s+(?:\w+\s+)?#?$"
    r"|\b(?:same\s+as|instead\s+of|rather\s+than|in\s+favou?r\s+of|similar\s+to|superseded\s+by|replaced\s+by|fixed\s+by"
    r"|unlike|except|but\s+not|duplicates|wie|statt|anstatt|duplikat\s+von|außer)\s+(?:\w+\s+)?#?$",
    re.IGNORECASE,
)
_PART = re.compile(r"[,;.!?]\s+|\n+|\s+(?:and|und|plus)\s+", re.IGNORECASE)
_MOST_TEXT = 20_000
_REMINDED = re.compile(
    r"\b(remind(?:er|ers|s)?)\s+(?:[^\s.!?;]+\s+){0,3}?(?:to\s+\w|about\s+\w+ing\b)[^.,:!?;\n]*", re.IGNORECASE
)
_PLANNED = re.compile(
    r"\b(?:i|we)(?:['’]m|['’]re|\s+am|\s+are)\s+(?:looking|planning|thinking|hoping)\s+(?:to|of|about)\b[^.!?;\n]*[.!?;\n]"
    r"|\b(?:i|we)(?:['’]ll|\s+will)\s[^.!?;\n]*\b(?:later|myself|ourselves)\b[^.!?;\n]*",
    re.IGNORECASE,
)
_NO_WORDS = re.compile(r"`[^`\n]+`|\"[^\"\n]+\"|[“„][^”“\n]+[”“]|\S*\w[./@_\\]\w\S*")
_TELL_ME = re.compile(
    r"(?:tell|show|give|let|zeig|zeige|sag|sage)\s+(?:me|us|mir|uns)\b"
    r"|(?:read|check|see|find\s+out|look\s+up|explain|summari[sz]e|list|lies|prüfe|prüf)\s+(?:me\s+)?"
    r"(?:what|which|who|whom|whose|whether|if|how|when|where|why|was|wer|ob|wie|wann|wo)\b",
    re.IGNORECASE,
)
_SHORT = 200
"""Characters of a field in which somebody may have looked for a number."""
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")


class AskingWords(TrustedWords):
    """The words of the sentences that may ask for an effect."""

    __slots__ = ()

    @property
    def has_digits(self) -> bool:
        """Whether something is said in digits, as an id, an amount or a day: then a call that was asked for uses it."""
        return any(_DIGIT.search(word) for word in self.naming)

    def shares_digits(self, value: object) -> bool:
        """Whether a value is made of something that was said in digits."""
        if isinstance(value, bool) or not _DIGIT.search(str(value)):
            return False
        if self.has(value):
            return True
        if (moment := as_moment(value)) is not None:
            return self.has_day(moment)
        return isinstance(value, str) and not self.naming.isdisjoint(
            word for word in words_of(value) if _DIGIT.search(word)
        )

    def names(self, record: Record) -> bool:
        """Whether it has a word of a record; a number only where that names the record."""
        words = {word for word in record.words(outside=True) if not word.isdecimal()} | record.identity
        return not self.naming.isdisjoint(words) or self._has_day_of(record)

    def names_by_digits(self, record: Record) -> bool:
        """Whether it has something of a record in digits."""
        return self._has_day_of(record) or any(
            self.shares_digits(field.value)
            if field.outside
            else _DIGIT.search(str(field.value)) and not isinstance(field.value, bool) and self.has(field.value)
            for field in record.fields
            if len(str(field.value)) <= _SHORT
        )

    def _has_day_of(self, record: Record) -> bool:
        moments = (as_moment(field.value) for field in record.fields if not field.outside)
        return any(moment is not None and self.has_day(moment) for moment in moments)


def asking_words(text: str) -> AskingWords:
    """The words of those sentences that may ask for an effect.

    Where a sentence only wants to be told something, what merely stands beside it tells why, and asks for nothing.
    """
    clauses = [(clause, _is_reading(clause, question)) for clause, question in _clauses(text)]
    only_told = any(reading for _, reading in clauses)
    found = AskingWords()
    for clause, reading in clauses:
        if not reading and (not only_told or _asks(clause)):
            found.add(clause, person=True)
    return found


@lru_cache(64)
def _plain(text: str) -> str:
    """A text without what is quoted in it, and without addresses, paths and names of files."""
    return _NO_WORDS.sub(" ", text)


def _without_own_plans(text: str) -> str:
    """A text without what the person only wants to be reminded of, or to do without help: `remind me to book`."""
    rest = _REMINDED.sub(r"\1", text)
    left = _PLANNED.sub(" ", rest)
    return left if _WORD.search(left) else rest


@lru_cache(64)
def requested(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words, and their stems, of what is no mere question and no wish to be told something."""
    words: set[str] = set()
    for clause, question in _clauses(_without_own_plans(_plain(text))):
        first = _WORD.match(clause)
        if question and first is not None and first.group().casefold() in _QUESTION_WORDS:
            continue
        if not _TELL_ME.match(clause):
            words |= words_of(clause)
    return frozenset(words), frozenset(map(stem, words))


@lru_cache(64)
def addressees(text: str) -> frozenset[str]:
    """The stems of the names behind words with which people say who gets something."""
    return frozenset(stem(word) for found in _GETS.finditer(text) for word in _WORD.findall(found[1]))


@lru_cache(64)
def sources(text: str) -> frozenset[str]:
    """The stems of the names that only tell where something comes from: `Chidi's minutes`, `the mail from Chidi`."""
    there = [word for found in _COMES.finditer(text) for word in words_of(found[1] or found[2])]
    rest = words_of(_COMES.sub(" ", text))
    return frozenset(stem(word) for word in there if word not in rest)


@lru_cache(256)
def is_only_compared(text: str, value: str) -> bool:
    """Whether what is acted on is only compared with this value wherever it is said, as in `a duplicate of 412`."""
    if not value or len(value) > 64 or value not in text:
        return False
    whole = re.compile(rf"(?<![\w.-]){re.escape(value)}(?![\w-])")
    before = [text[max(0, found.start() - 40) : found.start()] for found in whole.finditer(text)]
    return bool(before) and all(_COMPARED.search(each) for each in before)


@lru_cache(64)
def numbered_clauses(text: str) -> tuple[tuple[frozenset[Decimal], frozenset[str]], ...]:
    """The parts of a text with a number, each with its numbers and the stems of its words."""
    found = []
    for part in _PART.split(text[:_MOST_TEXT]):
        numbers = WrittenNumbers()
        numbers.read(part)
        if numbers.plain:
            found.append((frozenset(numbers.plain), frozenset(stems_of(part))))
    return tuple(found)


def _begins_with_reading(clause: str) -> bool:
    first = _WORD.match(clause)
    return first is not None and first.group().casefold() in _READING - _TELLING


def asks_for_noun(text: str, nouns: set[str]) -> bool:
    """Whether one of these nouns is what a text wants, and not only what something is in, from or about."""
    wanted = set(map(stem, nouns))
    clauses = [clause for clause, question in _clauses(_plain(text)) if not _begins_with_reading(clause)]
    before: tuple[str, ...] = ()
    for found in _WORD.finditer(". ".join(clauses)):
        word = found.group().casefold()
        if word in nouns or stem(word) in wanted:
            at = before[:-1] if before and before[-1] in _DETERMINERS - _ABOUT else before
            if not at or at[-1] not in _ABOUT:
                return True
        before = (*before[-1:], word)
    return False


def asks_with(text: str, verbs: frozenset[str], vague: frozenset[str] | None = None) -> bool:
    """Whether one of these verbs stands in a text as what is to be done, and not as a noun. Vague ones tell nothing."""
    before, vague = "", VAGUE if vague is None else vague
    for found in _WORD.finditer(_plain(text)):
        word = found.group().casefold()
        if word in verbs and word not in vague and before not in _DETERMINERS and not before.endswith(("'s", "’s")):
            return True
        before = word
    return False


def _clauses(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of the sentences of a text, and whether a sentence is a question."""
    for sentence in _SENTENCE.split(text):
        plain = sentence.strip()
        asked = _POLITE.sub("", plain)
        question = plain.endswith("?") and asked == plain
        for clause in [asked] if question else _CLAUSE.split(asked):
            if clause and clause.strip():
                yield clause.strip(), question


def _is_reading(clause: str, question: bool) -> bool:
    """Whether a clause asks to be told something."""
    words = [each.casefold() for each in _WORD.findall(_POLITE.sub("", clause))]
    if not words or question or words[0] in _QUESTION_WORDS or words[0] in _READING:
        return True
    if _SHORTLY.search(clause):
        return True
    told = words_of(clause)
    if told & {"summary", "overview", "gist", "recap", "rundown", "zusammenfassung", "überblick"}:
        return True
    return not told.isdisjoint(_READING) and not _FOR_ME.isdisjoint(words[:4])


def _asks(clause: str) -> bool:
    return not _ASKING.isdisjoint(words_of(clause))
