"""Finds names that people cannot tell apart.

Two names look alike if they are the same once case, accents, separators and invisible
characters are gone and each letter stands for its Latin double; or if they differ in
`0` and `O`, or in `1`, `l` and `I`. The table has the Cyrillic and Greek letters that
are drawn like Latin ones in common fonts. It is not all of Unicode's confusables.
"""

from __future__ import annotations

import unicodedata

_DOUBLES = (
    str.maketrans("АВЕЅІЈКМНОРСТУХЗаеѕіјкорсухԁһԛԝӏ", "ABESIJKMHOPCTYX3aesijkopcyxdhqwl")
    | str.maketrans("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαικνορυχϲ", "ABEZHIKMNOPTYXaikvopuxc")
    | str.maketrans("ıɑɡɩ", "iagi")
)
_SEPARATORS = str.maketrans({"-": "_", ".": "_", " ": "_"})
_STROKES = str.maketrans("0I1|", "Olll")
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Mn", "Me"})


def lookalike_keys(name: str) -> tuple[str, str]:
    """Two keys of a name: names that share either of them look alike."""
    latin = unicodedata.normalize("NFKD", name).translate(_DOUBLES)
    seen = "".join(letter for letter in latin if unicodedata.category(letter) not in _UNSEEN).translate(_SEPARATORS)
    return "fold " + seen.casefold(), "shape " + seen.translate(_STROKES).casefold()


def foreign_letters(name: str) -> str:
    """The letters of a name beyond ASCII, by their Unicode names, for an error that would else look like nonsense."""
    odd = dict.fromkeys(letter for letter in name if not letter.isascii())
    told = [f"U+{ord(letter):04X} {unicodedata.name(letter, 'without a name')}" for letter in odd]
    return f"; it holds {', '.join(told[:3])}{' and others' if len(told) > 3 else ''}" if told else ""
