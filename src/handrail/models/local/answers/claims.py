"""Numbers, names and dates that a text states, and whether the evidence has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from handrail.models.local.answers.phrases import DAYS, ENGLISH, GERMAN, RELATIVE_DAYS

_TOKEN = re.compile(r"(?<![\w.,])[+-]?\d[\d.,:/-]*\w*|\d[\d.,:/-]*\w*|[^\W\d_][\w'’-]*")
_PART = re.compile(r"\d+(?:[.,]\d+)?")
_NUMBER = re.compile(r"-?\d+[.,]\d+")
_GROUPED = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")
_ENDS = frozenset(".!?:…\n")
"""What stands before a word that begins a sentence or a line."""
_NUMBER_WORDS = ENGLISH.number_words | GERMAN.number_words
_ORDINARY = ENGLISH.ordinary_nouns | GERMAN.ordinary_nouns


class AnswerEvidence:
    """What was said and returned: the texts that a statement may rest on."""

    def __init__(self, texts: Iterable[str]) -> None:
        known: set[str] = set()
        for token in (token for text in texts for token in claim_tokens(text)):
            known.add(canonical_token(token))
            if has_digit(token):
                known.update(_parts(token))
            else:
                known.update(re.split(r"[-'’]", token.casefold()))
        self._stems = {stem for word in known for stem in word_stems(word)}

    def has(self, token: str) -> bool:
        """Whether this number, name or word is in it, in whatever spelling and with whatever plural."""
        return not self._stems.isdisjoint(word_stems(canonical_token(token)))


def claim_tokens(text: str) -> list[str]:
    """Words, and numbers with their signs; a date or a time is one token."""
    return [_trimmed(token) for token in _TOKEN.findall(text.replace("_", " "))]


def canonical_token(token: str) -> str:
    """The one spelling of a value: `270.0`, `270` and `270,00` are the same, and so are `Lisbon` and `lisbon`."""
    plain = token.casefold()
    if not has_digit(plain):
        return _NUMBER_WORDS.get(plain, plain)
    plain = plain.removeprefix("+")
    if _GROUPED.fullmatch(plain):
        plain = plain.replace(",", "")
    if _NUMBER.fullmatch(plain):
        plain = plain.replace(",", ".").rstrip("0").rstrip(".")
    return plain


def word_stems(word: str) -> set[str]:
    """The word, and the word without the ending of a plural, in both languages."""
    if has_digit(word) or len(word) < 4:
        return {word}
    return {word} | {word[: -len(ending)] for ending in ("s", "es", "e", "n", "en") if word.endswith(ending)}


def has_digit(token: str) -> bool:
    return any(character.isdigit() for character in token)


def stated_tokens(text: str) -> Iterator[str]:
    """The tokens of a text that state a number, a name or a date.

    A word with a capital counts as a name, unless it begins a sentence or is an ordinary noun. Two such words in a row
    count wherever they stand.
    """
    first, end = "", 0
    for found in _TOKEN.finditer(text):
        token = _trimmed(found.group())
        starts = end == 0 or not _ENDS.isdisjoint(text[end : found.start()])
        end = found.start() + len(token)
        name = token[0].isupper() and token not in _ORDINARY
        if has_digit(token) or token.casefold() in _NUMBER_WORDS or _is_date(token, text[end:]):
            yield token
        elif name and not starts:
            if first:
                yield first
            yield token
        first = token if name and starts else ""


def _parts(token: str) -> Iterator[str]:
    """The numbers in a date, a time or a code; not the digits of a number with a sign."""
    parts = _PART.findall(token)
    return map(canonical_token, parts if len(parts) > 1 or not token.startswith("-") else ())


def _trimmed(token: str) -> str:
    return token.rstrip(".,:/-'’") or token


def _is_date(token: str, rest: str) -> bool:
    # `may` and `morgen` are days only with a capital; `today` is one in any case, but not in "Can I help you today?".
    if token.casefold() in RELATIVE_DAYS:
        return not re.match(r"[^.!\n]*\?", rest)
    return token[0].isupper() and token.casefold() in DAYS
