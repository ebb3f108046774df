"""Which language a text is in, by its small words. Good for a paragraph; a few words it does not guess at."""

from __future__ import annotations

import re
from collections import Counter

NAMES = {
    "da": "Danish",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "sv": "Swedish",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "ar": "Arabic",
}
_SMALL = {
    "da": "og i at det en til er som på de med han af for ikke der var den jeg et har om vi hun havde ham fra men sig",
    "de": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er "
    "hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis "
    "mehr durch man sein wenn kann ich wir ihr",
    "en": "the of and to in is that for it as was with be by on not he his but at are this have from or had an they "
    "which one you were her all she there would their we him been has when who will more no if out so what can do",
    "es": "de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha me si sin "
    "sobre este ya entre cuando todo esta ser son dos también fue había era muy hasta desde",
    "fr": "de la le et les des en un du une que est pour qui dans par plus pas au sur ne se ce il sont avec son aux "
    "d'une cette ont mais comme ou si leur être été nous vous je tout fait elle on",
    "it": "di e il la che in un per è una non del con si da sono al le dei come più i ha della lo ma alla nel gli "
    "anche o se delle questo era ci su suo loro essere dalla",
    "nl": "de van het een en in is dat op te zijn met voor niet die aan er om ook als dan maar bij nog uit door over "
    "ze hij naar heeft wordt hebben was worden deze kan geen je ik we",
    "pl": "w i na z do się nie to że jest o a jak po za od przez ale dla co są być już tylko jego przy może tym który "
    "czy był tego ich ze",
    "pt": "de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele das tem à seu "
    "sua ou ser quando muito há nos já está eu também só pelo pela até isso",
    "sv": "och i att det som en på är av för med till den har de inte om ett men var jag sig från vi så kan när man nu "
    "där eller vid hade under också efter",
}
_WORD = re.compile(r"[^\W\d_]+")
_FIRST = 5000
"""The number of characters that are looked at."""


def _owners() -> dict[str, tuple[str, ...]]:
    owners: dict[str, tuple[str, ...]] = {}
    for language, words in _SMALL.items():
        for word in dict.fromkeys(words.split()):
            owners[word] = (*owners.get(word, ()), language)
    return owners


_OWNERS = _owners()


def is_small_word(word: str) -> bool:
    """Whether it says what language a text is in, and nothing of what it is about."""
    return word in _OWNERS


def guess_language(text: str) -> str | None:
    """The code of the language, or None where the text does not tell."""
    votes: Counter[str] = Counter()
    for word in _WORD.findall(text[:_FIRST].lower()):
        owners = _OWNERS.get(word, ())
        for language in owners:
            votes[language] += 60 // len(owners)  # a word that many languages have says little
    (first, most), (_, next_most) = [*votes.most_common(2), ("", 0), ("", 0)][:2]
    return first if most >= 120 and most * 4 >= next_most * 5 else None
