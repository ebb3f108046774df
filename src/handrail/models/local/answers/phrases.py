"""Words for rendering results, in English and German, and the words that state nothing by themselves."""

from __future__ import annotations

import re

from msgspec import Struct

from handrail.core.errors import Outcome


class LanguagePhrases(Struct, frozen=True, kw_only=True):
    """The phrases of one language."""

    result: str
    yes: str
    no: str
    none: str
    """The words for a value that is null or empty."""
    nothing_returned: str
    nothing_found: str
    conjunction: str
    failures: dict[Outcome, str]
    """What became of `{call}`, and `{why}` where the tool said so."""
    still_running: str
    more: str
    more_text: str
    tools: str
    unknown: str
    about_itself: re.Pattern[str]
    """A person asks what the model can do, and nothing else."""
    function_words: frozenset[str]
    """Words that join a sentence and state nothing. Words that tell this language from the other are among them."""
    ordinary_nouns: frozenset[str]
    """Nouns with a capital that name nothing in particular."""
    number_words: dict[str, str]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _listed(text: str) -> list[str]:
    return text.split()


_TENS = [str(number) for number in range(20, 100, 10)]

ENGLISH = LanguagePhrases(
    result="The result of {call} is {value}",
    yes="yes",
    no="no",
    none="none",
    nothing_returned="{call} is done; it returned nothing.",
    nothing_found="Nothing was found.",
    conjunction="and",
    failures={
        "unknown_tool": "{call} did not work: {why}",
        "invalid_arguments": "{call} did not work: {why}",
        "forbidden": "{call} was not done: it is not permitted.",
        "denied": "{call} was not done: it was denied.",
        "needs_confirmation": "{call} was not done yet: it waits for approval.",
        "timeout": "{call} did not answer in time.",
        "failed": "{call} did not work: {why}",
        "cancelled": "{call} was cancelled.",
        "in_doubt": "Nobody knows whether {call} was done. Look before you try it again.",
        "limit": "{call} was not done: {why}",
    },
    still_running="It may still be running.",
    more="… and {count} more",
    more_text="(… and {count} more characters in the result)",
    tools="I can use these tools:",
    unknown="I cannot answer that.",
    about_itself=re.compile(
        r"\W*((hi|hello|hey|ok|okay|so|and|please)\W+)*(help( me)?|what (else )?can you (do|help( me)? with)( for me)?|"
        r"(how )?can you help( me)?|what (are you able to|do you) do|what can i (do|ask( you)?)|"
        r"(what|which) (tools|functions|abilities|capabilities) ((do|can) you (have|use)|are (there|available))|"
        r"(what are|list|show( me)?) (all )?(your|the|available) (tools|abilities|capabilities))(\W+(please|here))?\W*",
        re.IGNORECASE,
    ),
    function_words=_words(
        "a an the is are was were be been it its this that these there here in on at of for to from with and has have "
        "you your"
    ),
    ordinary_nouns=_words("I AI I'm I'd I'll I've OK"),
    number_words={
        word: str(number)
        for number, word in enumerate(_listed("two three four five six seven eight nine ten eleven twelve"), 2)
    }
    | dict(zip(_listed("twenty thirty forty fifty sixty seventy eighty ninety"), _TENS, strict=True))
    | {"zero": "0", "dozen": "12", "hundred": "100", "thousand": "1000", "million": "1000000"},
)
GERMAN = LanguagePhrases(
    result="Das Ergebnis von {call} ist {value}",
    yes="ja",
    no="nein",
    none="leer",
    nothing_returned="{call} ist ausgeführt und hat nichts zurückgegeben.",
    nothing_found="Es wurde nichts gefunden.",
    conjunction="und",
    failures={
        "unknown_tool": "{call} hat nicht geklappt: {why}",
        "invalid_arguments": "{call} hat nicht geklappt: {why}",
        "forbidden": "{call} wurde nicht ausgeführt: Es ist nicht erlaubt.",
        "denied": "{call} wurde nicht ausgeführt: Es wurde abgelehnt.",
        "needs_confirmation": "{call} wurde noch nicht ausgeführt: Es wartet auf eine Freigabe.",
        "timeout": "{call} hat nicht rechtzeitig geantwortet.",
        "failed": "{call} hat nicht geklappt: {why}",
        "cancelled": "{call} wurde abgebrochen.",
        "in_doubt": "Niemand weiß, ob {call} ausgeführt wurde. Sieh nach, bevor du es noch einmal versuchst.",
        "limit": "{call} wurde nicht ausgeführt: {why}",
    },
    still_running="Es läuft vielleicht noch.",
    more="… und {count} weitere",
    more_text="(… und {count} weitere Zeichen im Ergebnis)",
    tools="Ich habe diese Werkzeuge:",
    unknown="Das kann ich nicht beantworten.",
    about_itself=re.compile(
        r"\W*((hi|hallo|hey|ok|okay|so|und|bitte)\W+)*(hilfe|hilf mir|was machst du( so)?|"
        r"was kannst du( denn| alles| noch)?( für mich)?( tun| machen)?|((wobei|womit|wie) )?kannst du( mir)? helfen|"
        r"welche (werkzeuge|tools|funktionen|fähigkeiten) (hast du|gibt es)|"
        r"(was sind|zeige?( mir)?|nenne?( mir)?) (alle )?deine (werkzeuge|tools|fähigkeiten))"
        r"(\W+(bitte|denn|hier))?\W*",
        re.IGNORECASE,
    ),
    function_words=_words(
        "der die das den dem des ein eine einen einem es ist sind war waren in im am auf an von für mit und hat haben "
        "beträgt gibt dort hier zu zum zur bei"
    ),
    ordinary_nouns=_words(
        "Tag Problem Werkzeug Werkzeuge Werkzeugen Ergebnis Ergebnisse Frage Fehler Hilfe Moment Aufgabe Anfrage "
        "Antwort Name Namen Angabe Angaben Ordnung Dank Morgen Abend Grüße Freude "
        "Wiedersehen Assistent Fragen Du Sie Ihnen Ihr Dir Dich"
    ),
    number_words={
        word: str(number)
        for number, word in enumerate(_listed("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"), 2)
    }
    | dict(zip(_listed("zwanzig dreissig vierzig fünfzig sechzig siebzig achtzig neunzig"), _TENS, strict=True))
    | {"dutzend": "12", "hundert": "100", "tausend": "1000", "million": "1000000"},
)
JUDGEMENTS = _words(
    "not no never none than more less most least only all every yes nothing true false same "
    "nicht kein keine keinen keiner nie als mehr weniger nur alle ja nein nichts wahr falsch gleich"
)
"""Words that turn a statement round or compare: a sentence with one is never taken for a plain report."""
ACTION_DONE = re.compile(
    r"\bI(?:'ve| have)?(?: just| now| already)? \w+ed\b"
    r"|\b(?:was|were|been)(?: just| now| already)? (?:\w+ed|sent|done|made|paid)\b|\b(?:is|it's|are) done\b"
    r"|\b(?:placed|ordered|booked|shipped|cancelled|deleted)\b|^\W*(?:done|sent|erledigt|bestellt)\b"
    r"|\b(?:habe|hab|wurden?|ist|sind)\b[^.!?]*\b(?:ge\w{2,}(?:t|en)|(?:be|ver)\w{2,}t|\w+iert|erledigt|aufgegeben)\b",
    re.IGNORECASE,
)
"""A sentence says that something was done. Only a call does anything."""
RELATIVE_DAYS = _words("today tomorrow yesterday tonight heute gestern übermorgen")
DAYS = _words(
    "monday tuesday wednesday thursday friday saturday sunday "
    "montag dienstag mittwoch donnerstag freitag samstag sonntag january february march april may june july august "
    "september october november december januar februar märz mai juni juli oktober dezember"
)
TEMPERATURE = _words("degrees degree grad")
OF_TEMPERATURE = _words("temperature celsius fahrenheit degrees temperatur weather wetter warm cold kalt grad")


def language_of(*texts: str) -> LanguagePhrases:
    """The language of the first of these texts that shows it; English where none does."""
    for text in texts:
        words = re.findall(r"\w+", text.lower())
        german = sum(word in GERMAN.function_words or word in _GERMAN_SIGNS or "ß" in word for word in words)
        english = sum(word in ENGLISH.function_words or word in _ENGLISH_SIGNS for word in words)
        if german != english:
            return GERMAN if german > english else ENGLISH
    return ENGLISH


_GERMAN_SIGNS = _words(
    "danke bitte hallo guten tschüss vielen dank schade und oder nicht ich du mir dir mein meinem meiner deine kannst "
    "bestelle suche zeige zeig lies lösche mach mache wieviel hilfe wobei womit welche storniere bezahle schicke sende "
    "buche öffne deutsch ja nein wie viel viele was wo wann"
)
_ENGLISH_SIGNS = _words(
    "thanks please hello good bye or not i me my show find order delete read help which can "
    "how what do does send book cancel pay yes no english"
)
