"""Calls that differ only in how their short texts are worded.

Same tool, same keys, equal numbers, flags and single words; each text of a few
words agrees by the rules of `prose.py`, and its vector is near.

What it can get wrong:
- Two names in lower case ("flights to rome", "flights to oslo") are told apart by the
  vector alone, as are opposites that the list of deciding words lacks.
- The list is English; in other languages the vector decides. Scripts without spaces are
  compared to the letter, which is safe and finds nothing.
- A tool that treats two wordings differently (a prompt, a message to send, code)
  would get an answer that is not its own: give it the exact deduplicator.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any

from handrail.core.canonical import canonical_json
from handrail.core.ports import Embedder
from handrail.execute.dedupe.matching import MatchedCallKey, call_digest


@dataclass(frozen=True, slots=True)
class SemanticCallKey(MatchedCallKey):
    shape: bytes
    """The shape of everything but the texts: equal for calls that may be near."""
    texts: tuple[ShortText, ...]
    vectors: tuple[Sequence[float], ...]


@dataclass(frozen=True, slots=True)
class SemanticMatcher:
    embedder: Embedder
    threshold: float

    def key(self, name: str, arguments: dict[str, Any]) -> SemanticCallKey:
        texts: list[ShortText] = []
        shape = hashlib.sha256(canonical_json([name, _shape(arguments, texts)])).digest()
        vectors = self.embedder.embed([prose.text for prose in texts]) if texts else []
        return SemanticCallKey(call_digest(name, arguments), shape, tuple(texts), tuple(vectors))

    def nearest(self, key: SemanticCallKey, others: Iterable[SemanticCallKey]) -> SemanticCallKey | None:
        best, best_score = None, self.threshold
        for other in others:
            if key.shape == other.shape and all(map(short_texts_agree, key.texts, other.texts)):
                score = min(map(_product, key.vectors, other.vectors), default=1.0)
                if score >= best_score:
                    best, best_score = other, score
        return best


def _shape(value: Any, texts: list[ShortText]) -> Any:
    """The value with every prose text taken out and put on the list. The tags keep a hole apart from any value."""
    match value:
        case dict():
            return ["object", {key: _shape(value[key], texts) for key in sorted(value)}]
        case list() | tuple():
            return ["list", [_shape(item, texts) for item in value]]
        case str() if (prose := read_short_text(value)) is not None:
            texts.append(prose)
            return ["prose"]
    return ["value", value]


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(map(mul, one, other))


FEWEST_WORDS = 2
"""A single word is as likely an id, a path or one of a list as it is prose."""
MOST_WORDS = 16
"""The most words of a text that is compared. In a longer one a changed word moves the vector too little to be seen."""

_ENDS = ".,;:!?"
_INSIDE = "'-"

_DECISIVE = {
    "negation": "no not none never neither nor nothing nobody without except excluding but cannot",
    "how much": "all any every each only some both either or more less most least fewer many few over under above "
    "below between max min maximum minimum highest lowest largest smallest biggest best worst top bottom",
    "which way": "to from into onto by before after since until till than versus up down left right out off with "
    "against",
    "which state": "increase decrease add remove open close opened closed enable disable enabled disabled start stop "
    "include exclude old new",
    "when": "now today tomorrow yesterday tonight last next first previous current latest newest oldest past future "
    "day week month year daily weekly monthly yearly monday tuesday wednesday thursday friday saturday sunday "
    "january february march april may june july august september october november december",
    "how many": "zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty "
    "seventy eighty ninety hundred thousand million billion half quarter third second twice double once",
    "who and why": "who whom whose when where why how which he she his her him my your our their",
}
DECISIVE = frozenset(word for words in _DECISIVE.values() for word in words.split())
"""Small words that turn a meaning round and hardly move a vector."""


@dataclass(frozen=True, slots=True)
class ShortText:
    """A text of a few words, as far as it has to agree with another."""

    text: str
    words: tuple[str, ...]
    """The words in lower case, without the punctuation after them."""
    names: frozenset[str]
    """The words that were written with a capital."""
    marked: tuple[str, ...]
    """Everything with a digit or a sign in it, to the letter: numbers, dates, ids, paths, addresses, operators."""
    decisive: tuple[str, ...]


def read_short_text(text: str) -> ShortText | None:
    """The text as prose, or None if it is only equal to itself."""
    chunks = [chunk.rstrip(_ENDS) or chunk for chunk in text.replace("’", "'").split()]
    if not FEWEST_WORDS <= len(chunks) <= MOST_WORDS:
        return None
    plain = [chunk for chunk in chunks if _is_plain(chunk)]
    words = tuple(map(_word, plain))
    return ShortText(
        text=text,
        words=words,
        names=frozenset(word for word, chunk in zip(words, plain, strict=True) if chunk != chunk.lower()),
        marked=tuple(chunk for chunk in chunks if not _is_plain(chunk)),
        decisive=tuple(word for word in words if word in DECISIVE),
    )


def short_texts_agree(one: ShortText, other: ShortText) -> bool:
    """Whether nothing that can be seen tells the two apart: names, marks, deciding words, the order of shared words."""
    return (
        one.marked == other.marked
        and one.decisive == other.decisive
        and one.names <= set(other.words)
        and other.names <= set(one.words)
        and _shared(one, other) == _shared(other, one)
    )


def _shared(one: ShortText, other: ShortText) -> list[str]:
    common = set(other.words)
    return [word for word in one.words if word in common]


def _is_plain(chunk: str) -> bool:
    return chunk[0].isalpha() and all(sign.isalpha() or sign in _INSIDE for sign in chunk)


def _word(chunk: str) -> str:
    word = chunk.lower()
    return "not" if word.endswith("n't") else word.removesuffix("'s")
