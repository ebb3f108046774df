"""What a question about lines wants, read by rules: count, list, the first, the last, or whatever is nearest.

A small model is not asked to choose: of twelve questions the embedded one got four right,
and it looked for words that nobody had said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from handrail.rlm.lines import vocabulary
from handrail.rlm.lines.vocabulary import Language
from handrail.rlm.lines.word_forms import WordPattern, anywhere, exact, forms, pattern, related

Operation = Literal["count", "times", "size", "list", "first", "last", "find", "compare"]
Unit = Literal["lines", "words", "characters", "files"]


class TermLookup(Struct, frozen=True):
    """One way to find a term. The first way that finds anything in the context is taken."""

    how: Literal["written", "forms", "related", "part"]
    shown: str
    pattern: WordPattern


class SearchTerm(Struct, frozen=True):
    shown: str
    """The term as the question has it."""
    tiers: tuple[TermLookup, ...]


class LineSpan(Struct, frozen=True):
    kind: Literal["line", "time", "date", "datetime"]
    start: str
    end: str
    """Included, like the start."""


class LineQuestion(Struct, frozen=True, kw_only=True):
    """What to look for, and what to say of it."""

    text: str
    language: Language
    operation: Operation
    unit: Unit = "lines"
    groups: tuple[tuple[SearchTerm, ...], ...] = ()
    """A line must have one term of each group."""
    without: tuple[SearchTerm, ...] = ()
    """Terms that a line must not have."""
    between: LineSpan | None = None
    names: tuple[str, ...] = ()
    """Terms that may be the name of a file."""
    most: int | None = None
    """The number of lines that are wanted, if the question says it."""
    has_more: bool = False
    """Whether a second question follows, which is not read."""


def read_question(text: str) -> LineQuestion:
    """Read any text. What cannot be read as one of the others is a question to find the nearest lines for."""
    parts = vocabulary.NEXT_QUESTION.split(text, maxsplit=1)
    read = _read(text, parts[0])
    if len(parts) == 1 or read.operation in ("find", "compare"):
        return _read(text, text)
    return replace(read, has_more=True)


def _read(text: str, part: str) -> LineQuestion:
    language = vocabulary.language_of(text)
    hidden, quotes = _hide_quotes(part)
    rest, between = _between(hidden)
    operation, rest, most = _operation(rest)
    words = _QuestionWords(_show_quotes(rest, quotes), language, operation)
    operation = _settled(operation, words)
    if not words.has_terms and operation in ("first", "last", "list") and words.unit is None and between is None:
        operation = "find"
    if not words.has_terms and operation == "find" and between is not None:
        operation = "list"
    return LineQuestion(
        text=text,
        language=language,
        operation=operation,
        unit=words.unit or "lines",
        groups=tuple(map(tuple, words.groups)),
        without=tuple(words.without),
        between=between,
        names=tuple(words.names),
        most=most,
    )


def _operation(text: str) -> tuple[Operation, str, int | None]:
    """What is wanted, the rest of the question, and how many lines of it."""
    read = _plain_operation(text.strip())
    if read[0] != "find" and vocabulary.CALCULATE.search(text):
        return "compare", text.strip(), None
    return read


def _plain_operation(asked: str) -> tuple[Operation, str, int | None]:
    if vocabulary.TIMES.search(asked):
        return "times", vocabulary.TIMES.sub(" ", asked), None
    if vocabulary.COUNT.search(asked) or vocabulary.COUNT_NOUN.search(asked):
        return "count", vocabulary.COUNT_NOUN.sub(" ", vocabulary.COUNT.sub(" ", asked)), None
    if vocabulary.COMPARE.search(asked):
        return "compare", asked, None
    for operation, words in _ENDS:
        if found := words.search(asked):
            number = found[1] or found[2]
            return operation, _without(asked, found), int(number) if number else None
    if vocabulary.LIST.search(asked):
        return "list", re.sub(r"^\s*(?:please |bitte )?\w+", " ", asked), None
    return "find", asked, None


_ENDS: tuple[tuple[Literal["first", "last"], re.Pattern[str]], ...] = (
    ("first", vocabulary.FIRST),
    ("last", vocabulary.LAST),
)


def _settled(operation: Operation, words: _QuestionWords) -> Operation:
    if operation in ("count", "times") and words.unit in ("words", "characters") and words.has_terms:
        return "compare"
    if operation in ("count", "times") and not words.has_terms:
        return "size" if words.unit is not None else "find"
    if operation == "find" and words.asks_which and len(words.groups) == 1:
        return "list"
    return operation


_POINTS = {
    "datetime": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?",
    "date": r"\d{4}-\d\d-\d\d",
    "time": r"\d\d?:\d\d(?::\d\d)?",
}
_SPAN = (
    r"\b(?:between|from|zwischen|von)\s+(?:the\s+|den\s+)?{before}({point})"
    r"\s+(?:and|to|until|und|bis)\s+{before}({point})\b"
)
_LINES = r"(?:lines?|zeilen?)\s+"
_RANGE = re.compile(rf"\b{_LINES}(\d+)\b(?:\s*(?:-|–|to|and|bis|und)\s*(\d+)\b)?", re.IGNORECASE)


def _between(text: str) -> tuple[str, LineSpan | None]:
    """The rest of the question, and the span that it names."""
    for kind in ("datetime", "date", "time"):
        if found := re.search(_SPAN.format(before="", point=_POINTS[kind]), text, re.IGNORECASE):
            start, end = (_point(each) for each in found.groups())
            return _without(text, found), LineSpan(kind, start, end)
    lines = re.search(_SPAN.format(before=f"(?:{_LINES})?", point=r"\d+"), text, re.IGNORECASE)
    if lines is None or not re.search(_LINES, lines[0], re.IGNORECASE):
        lines = _RANGE.search(text)
    if lines is None:
        return text, None
    start, end = lines[1], lines[2] or lines[1]
    return _without(text, lines), LineSpan("line", start.lstrip("0") or "0", end.lstrip("0") or "0")


def _without(text: str, found: re.Match[str]) -> str:
    return f"{text[: found.start()]} {text[found.end() :]}"


def _point(text: str) -> str:
    """A moment as text, with two digits for the hour and a space between date and time, so that moments compare as
    text."""
    if re.fullmatch(r"\d:.*", text):
        return f"0{text}"
    return text.replace("T", " ")


_TOKEN = re.compile(
    r"\"([^\"]+)\"|„([^“”\"]+)[“”\"]|“([^”]+)”|«([^»]+)»|`([^`]+)`|(?<!\w)'([^']+)'(?!\w)|([^\s\"„“”«»`]+)"
)
_AROUND = ".,;:!?()[]{}<>'’…"


def _hide_quotes(text: str) -> tuple[str, list[str]]:
    """The text with one character in place of each quote, and the quotes: no word in them says how to look."""
    quotes = [found[0] for found in _TOKEN.finditer(text) if found[7] is None]
    for at, quote in enumerate(quotes):
        text = text.replace(quote, chr(_FIRST_MARK + at), 1)
    return text, quotes


def _show_quotes(text: str, quotes: list[str]) -> str:
    return text.translate({_FIRST_MARK + at: quote for at, quote in enumerate(quotes)})


_FIRST_MARK = 0xE000
"""The first of the characters that Unicode leaves for private use."""


class _QuestionWords:
    """The words of a question that are left once it is known what is wanted, sorted into terms."""

    def __init__(self, text: str, language: Language, operation: Operation) -> None:
        self.groups: list[list[SearchTerm]] = []
        self.without: list[SearchTerm] = []
        self.names: list[str] = []
        self.unit: Unit | None = None
        self.asks_which = False
        self._language = language
        self._operation = operation
        self._shouts = text.isupper()
        self._both = False
        self._contains = False
        self._negated = False
        self._joint = ""
        spare: list[SearchTerm] = []
        after_which = False
        for word, is_quoted in _tokens(text):
            if is_quoted:
                self._place(_phrase(word))
            elif not self._takes(word):
                term = self._term(word)
                is_category = word.lower() in vocabulary.CATEGORIES or (after_which and operation in ("first", "last"))
                if is_category:
                    spare.append(term)
                else:
                    self.asks_which = self.asks_which or after_which
                    self._place(term)
            after_which = not is_quoted and vocabulary.WHICH.match(word) is not None
        if self._negated and not self.without and self.groups:
            self.without = self.groups.pop()
        if not self.has_terms and self.unit is None:
            self.groups = [[term] for term in spare]

    @property
    def has_terms(self) -> bool:
        return bool(self.groups or self.without)

    def _takes(self, word: str) -> bool:
        """Whether a word says how to look, and not what for."""
        low = word.lower()
        for unit, names in vocabulary.UNITS.items():
            if low in names and not (unit == "files" and self.unit is not None):
                self.unit = unit  # type: ignore[assignment]  # the keys are the units
                return True
        if low in vocabulary.OR | vocabulary.AND | {","}:
            self._joint = "or" if low in vocabulary.OR else "and"
        elif low in vocabulary.BOTH:
            self._both = True
        elif self._operation != "find" and vocabulary.NEGATIONS.fullmatch(low):
            self._negated = True
        elif low in vocabulary.CONTAINING:
            self._contains = True
        else:
            return _says_nothing(word, self._shouts)
        return True

    def _place(self, term: SearchTerm) -> None:
        joint, self._joint = self._joint, ""
        if self._negated:
            self.without.append(term)
        elif self.groups and (joint == "or" or (joint == "and" and not self._both and not self._contains)):
            self.groups[-1].append(term)
        else:
            self.groups.append([term])

    def _term(self, word: str) -> SearchTerm:
        if not word.isalpha():
            self.names.append(word)
            return SearchTerm(
                word, (TermLookup("written", word, exact(word)), TermLookup("forms", word, exact(word, any_case=True)))
            )
        tiers = [TermLookup("forms", word, pattern(forms(word, self._language)))]
        tiers += [TermLookup("related", name, pattern(words)) for name, words in related(word, self._language)]
        if word.isupper() and len(word) > 1 and not self._shouts:
            tiers.insert(0, TermLookup("written", word, exact(word)))
        if self._operation in ("find", "compare") and len(word) > 3:
            tiers.append(TermLookup("part", word, anywhere(f"(?i:{re.escape(word)})")))
        return SearchTerm(word, tuple(tiers))


def _says_nothing(word: str, shouts: bool) -> bool:
    low = word.lower()
    if word.isupper() and len(word) > 1 and not shouts:
        return False  # INFO, GET or AM in capitals is a name
    short = len(word) < 3 and not word[0].isdigit() and word.isascii() and word.isalpha()
    return short or low in vocabulary.FUNCTION_WORDS or low in vocabulary.GENERIC


def _phrase(text: str) -> SearchTerm:
    plain = re.escape(text)
    return SearchTerm(
        text, (TermLookup("written", text, anywhere(plain)), TermLookup("forms", text, anywhere(f"(?i:{plain})")))
    )


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Words without what stands around them, commas between them, and what is in quotes as one."""
    for found in _TOKEN.finditer(text):
        quoted = next((each for each in found.groups()[:-1] if each), None)
        if quoted is not None:
            yield " ".join(quoted.split()), True
            continue
        if word := found[7].strip(_AROUND):
            yield word, False
        if found[7].endswith(","):
            yield ",", False
