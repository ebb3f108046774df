"""Text as words that can be compared: parts of names, folded case, no accents, endings off.

Light on purpose. It is not a stemmer of any one language: it makes `creating_files`
meet `create file`, leaves alone what it does not know, and gives the same for the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

LONGEST = 4_000
"""Characters of one text that are looked at: a description or a message can be a whole file."""

_PARTS = re.compile(r"[^\W\d_]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
"""Scripts in which words are not set apart; pairs of letters stand for them."""
_ENDINGS = (
    # ending   instead   letters that must be left
    ("ations", "at", 3),
    ("ation", "at", 3),
    ("tions", "t", 3),
    ("sions", "s", 3),
    ("tion", "t", 3),
    ("sion", "s", 3),
    ("ings", "", 3),
    ("ing", "", 3),
    ("ies", "y", 2),
    ("ied", "y", 2),
    ("sses", "ss", 2),
    ("xes", "x", 2),
    ("ches", "ch", 2),
    ("shes", "sh", 2),
    ("ed", "", 3),
    ("es", "", 3),
    ("s", "", 3),
)
_STAY = ("ss", "us", "is")
"""What looks like an ending and is none."""
_DOUBLED = frozenset("bdfgmnprt")
_SAY_NOTHING = """
a about all an and any are as at be been by can could did do does for from had has have he her his how i if in into is
it its just let may me mine my need now of on one onto or our out over please she should so some than that the their
them then there these they thing this those to too up us use using want was we were what when which while who why will
with would you your
"""
_IDLE = frozenset(_SAY_NOTHING.split())


def comparable_words(text: str) -> list[str]:
    """The words of a text in order, those that say nothing left out."""
    return [word_root(word) for word in _split(text[:LONGEST]) if word not in _IDLE]


def name_parts(name: str) -> list[str]:
    """The words of a name, whatever joins them. None of them is idle here: a tool may be called `do_it`."""
    return [word_root(word) for word in _split(name)]


def bare_letters(text: str) -> str:
    """A name by its letters and digits alone."""
    return "".join(_PARTS.findall(_folded(text)))


@lru_cache(maxsize=32_768)
def word_root(word: str) -> str:
    """The word without its ending, so that its forms meet."""
    if len(word) < 4 or not word.isascii() or word.endswith(_STAY):
        return word
    for ending, instead, left in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= left:
            word = word[: -len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] in _DOUBLED:
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def _split(text: str) -> Iterator[str]:
    for word in _PARTS.findall(_folded(_CAMEL.sub(" ", text))):
        if _UNSPACED.match(word) is None:
            yield word
        else:
            yield from (word[at : at + 2] for at in range(max(len(word) - 1, 1)))


def _folded(text: str) -> str:
    """Folded case, no accents. What is ASCII already needs only the first."""
    if text.isascii():
        return text.lower()
    spread = unicodedata.normalize("NFKD", text)
    bare = "".join(letter for letter in spread if not unicodedata.combining(letter))
    return unicodedata.normalize("NFC", bare).casefold()
