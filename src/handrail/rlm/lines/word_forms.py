"""The forms of a word that count as the word: capitals, plural, tenses. And a pattern that finds them.

The rules make more forms than a language has ("errored"); those stand in no text and do no harm. They make none that
is a common word of another meaning: "news" is not the plural of "new", nor "Fehler" a form of "fehlen".
"""

from __future__ import annotations

import re

from msgspec import Struct

from handrail.rlm.lines.vocabulary import CONCEPTS, NEXT_CONCEPT, Language

_VOWELS = "aeiouy"
_PLURAL_ONLY = frozenset(
    ("news", "always", "perhaps", "series", "species", "means", "goods", "sales", "james", "paris")
)
_FAMILIES = (
    ("fail", "fails", "failed", "failing", "failure", "failures"),
    ("sell", "sells", "sold", "selling"),
    ("buy", "buys", "bought", "buying"),
    ("pay", "pays", "paid", "paying"),
    ("send", "sends", "sent", "sending"),
    ("lose", "loses", "lost", "losing"),
    ("win", "wins", "won", "winning"),
    ("build", "builds", "built", "building"),
    ("write", "writes", "wrote", "written", "writing"),
    ("break", "breaks", "broke", "broken", "breaking"),
    ("begin", "begins", "began", "begun", "beginning"),
    ("steal", "steals", "stole", "stolen", "stealing"),
    ("choose", "chooses", "chose", "chosen", "choosing"),
    ("meet", "meets", "met"),
    ("catch", "catches", "caught", "catching"),
    ("child", "children"),
    ("person", "persons", "people"),
    ("man", "men"),
    ("woman", "women"),
)
_FAMILY = {form: family for family in _FAMILIES for form in family}
_UMLAUTS = str.maketrans("äöü", "aou")
_NOUN_ENDINGS = ("en", "es", "n", "e", "s")
_NOUN_FORMS = ("", "e", "en", "n", "s", "es", "nen")
_VERB_ENDINGS = ("ten", "te", "est", "en", "er", "es", "em", "st", "e", "n", "t")
_VERB_FORMS = ("", "e", "en", "n", "t", "te", "ten", "st", "er", "es", "em")
_SHORTEST_STEM = 4


def forms(word: str, language: Language) -> tuple[str, ...]:
    """The forms of a word of letters, in small letters, sorted. A German noun is told by its capital."""
    low = word.lower()
    if language == "en":
        found = _english(low)
    elif word[:1].isupper():
        found = _german_noun(low)
    else:
        found = _german(low)
    return tuple(sorted(found | {low}))


def related(word: str, language: Language) -> list[tuple[str, tuple[str, ...]]]:
    """Words that may stand in for it, nearest first: how to call them, and all of them."""
    own = set(forms(word, language))
    found: list[tuple[str, tuple[str, ...]]] = []
    for concept in CONCEPTS:
        if own & set(concept):
            others = tuple(each for each in concept if each not in own)
            found += [(others[0], others)] if others else []
            found += [(far[0], far) for far in _after(concept)]
            break
    return found


def _after(concept: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [far for near, name in NEXT_CONCEPT.items() if near in concept for far in CONCEPTS if name in far]


class WordPattern(Struct, frozen=True):
    """What to look for, in two forms that find the same.

    A regular expression with looks around it is slow in Monty, and fails there on long texts. So code in a REPL takes
    `plain`, and looks itself whether what it found is a whole word; a search on the host takes `regex`.
    """

    plain: str
    regex: str
    is_whole: bool
    """Whether it counts only where no letter or digit stands beside it."""
    has_humps: bool
    """A capital after a small letter begins a word too: `TimeoutError` has "timeout" and "error"."""


def pattern(words: tuple[str, ...]) -> WordPattern:
    """Finds these as whole words, whatever their case. An underscore and a capital after a small letter end a word.

    So `error_code` has "error", and `TimeoutError` has "timeout" and "error".
    """
    ordered = sorted(words, key=lambda each: (-len(each), each))
    either = "|".join(map(re.escape, ordered))
    if any(_runs_together(each) for each in words):
        return anywhere(f"(?i:{either})")
    hump = "(?<=[a-zäöüß])(?=[A-ZÄÖÜ])"
    # The group is atomic because `plain` does not try a shorter form either where the longest does not end a word.
    regex = rf"(?:(?<![^\W_])|{hump})(?>(?i:{either}))(?:(?![^\W_])|{hump})"
    return WordPattern(f"(?i:{either})", regex, True, True)


def exact(word: str, *, any_case: bool = False) -> WordPattern:
    """Finds it as it is written, as a whole word."""
    plain = f"(?i:{re.escape(word)})" if any_case else re.escape(word)
    before = r"(?<![^\W_])" if word[0].isalnum() else ""
    after = r"(?![^\W_])" if word[-1].isalnum() else ""
    return WordPattern(plain, f"{before}{plain}{after}", True, False)


def anywhere(regex: str) -> WordPattern:
    """Finds it inside of words too."""
    return WordPattern(regex, regex, False, False)


def _runs_together(word: str) -> bool:
    """Whether it is of a script that puts no spaces between words."""
    return any("\u2e80" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7af" for letter in word)


def _english(word: str) -> set[str]:
    if word in _FAMILY:
        nouns = {each for each in _FAMILY[word] if each.endswith(("ure", "ures"))}
        return nouns if word in nouns else set(_FAMILY[word])
    if word in _PLURAL_ONLY or len(word) < 3 or not word.isascii():
        return {word}
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return {word, *_singulars(word)}
    if word.endswith("ing"):
        return {word, f"{word}s"}
    if word.endswith("ed") and not word.endswith("eed"):
        return {word}.union(*map(_verb, _unpast(word)))
    return {word, _plural(word)} | _verb(word)


def _singulars(word: str) -> set[str]:
    found = {word[:-1]}
    if word.endswith("ies") and len(word) > 4:
        found.add(f"{word[:-3]}y")
    if word.endswith(("ses", "xes", "zes", "ches", "shes")):
        found.add(word[:-2])
    return found


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2] not in _VOWELS:
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def _verb(base: str) -> set[str]:
    found = {base, _plural(base)}
    if base.endswith("e"):
        return found | {f"{base}d", f"{base[:-1]}ing"}
    if base.endswith("y") and base[-2] not in _VOWELS:
        return found | {f"{base[:-1]}ied", f"{base}ing"}
    found |= {f"{base}ed", f"{base}ing"}
    if base[-1] not in f"{_VOWELS}wx" and base[-2] in _VOWELS and base[-3] not in _VOWELS:
        found |= {f"{base}{base[-1]}ed", f"{base}{base[-1]}ing"}
    return found


def _unpast(word: str) -> set[str]:
    bases = {word[:-1], word[:-2]}
    if word.endswith("ied"):
        bases.add(f"{word[:-3]}y")
    if len(word) > 5 and word[-3] == word[-4]:
        bases.add(word[:-3])
    return {base for base in bases if len(base) > 2 and any(letter in _VOWELS for letter in base)}


def _german_noun(word: str) -> set[str]:
    stems = _stems(word, _NOUN_ENDINGS)
    found = {stem + end for stem in stems for end in _NOUN_FORMS}
    for stem in stems:
        if (other := _with_umlaut(stem)) is not None:
            found |= {other + end for end in ("e", "en", "er", "ern")}
    plain = word.translate(_UMLAUTS)
    if plain != word:  # Häuser: Haus. Verträge: Vertrag.
        endings = [end for end in ("ern", "er", "en", "e") if plain.endswith(end) and len(plain) - len(end) > 2]
        found |= {plain.removesuffix(end) + form for end in endings for form in ("", "s", "es", "e")}
    return found


def _with_umlaut(stem: str) -> str | None:
    """The stem with its last vowel changed, as plurals do: Leuchtturm, Leuchttürme."""
    at = max(stem.rfind(vowel) for vowel in "aou")
    if at < 0 or any(vowel in stem[at + 1 :] for vowel in "eiäöü"):
        return None
    if stem[at] == "u" and stem[at - 1 : at] == "a":
        at -= 1
    return stem[:at] + {"a": "ä", "o": "ö", "u": "ü"}[stem[at]] + stem[at + 1 :]


def _german(word: str) -> set[str]:
    return {stem + end for stem in _stems(word, _VERB_ENDINGS) for end in _VERB_FORMS}


def _stems(word: str, endings: tuple[str, ...]) -> set[str]:
    ended = [end for end in endings if word.endswith(end) and len(word) - len(end) >= _SHORTEST_STEM]
    return {word, *map(word.removesuffix, ended)}
