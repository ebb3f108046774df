"""The words that tell what a question wants, in English and German. What is left of it names what to look for."""

from __future__ import annotations

import re
from typing import Literal

Language = Literal["en", "de"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_GERMAN = _words(
    "wie viele viel wieviel wieviele oft wer wen wem wo wann welche welcher welches welchen welchem warum der das "
    "den dem des und oder gibt gab ist sind waren wurde wurden nicht ohne kein keine keinen keiner keinem zeige "
    "zeig nenne liste finde anzahl zeile zeilen im zum zur mit von vom hat haben es zwischen zuerst zuletzt alle "
    "enthalten erwähnen"
)
_ENGLISH = _words(
    "how many often who whom whose what which when where why the is are were does did do has have of and or not "
    "without show list find count number lines line there between first last all contain mention"
)

OR = _words("or oder")
AND = _words("and und sowie &")
BOTH = _words("both beide sowohl")
NEGATIONS = re.compile(
    r"(?:not|without|never|no|neither|nor|except|nicht|ohne|nie|weder|außer|kein(?:e[nmrs]?)?|\w+n['’]t)", re.IGNORECASE
)

CONTAINING = _words(
    "contain contains containing contained mention mentions mentioning mentioned include includes including "
    "included have has having say says saying with match matches matching enthalten enthält enthielten erwähnen "
    "erwähnt nennen haben hat mit"
)
"""Verbs after which "a and b" asks for both in one line."""

FUNCTION_WORDS = _words(
    "a an the and or of in on at to for from by as into about is are was were be been being am there here it its "
    "this that these those they them their then than he she his her him we us our i me my you your who whom whose "
    "what which when where why how does did do has have had with can could would should will may might must any "
    "some all each every please also just only still ever yet if so such but der die das den dem des ein eine einen "
    "einem einer eines und oder von vom zu zum zur in im ins an am auf aus bei für mit nach über unter um als "
    "auch wie was wer wen wem wo wann warum welche welcher welches welchen welchem ist sind war waren wird werden "
    "wurde wurden worden hat haben hatte hatten gibt gab es er sie ihn ihm ihr wir uns sich mir dir ich du man da "
    "dort hier bitte auch nur noch schon alle allen jede jeder jedes jeden denn aber dass sein seine seinen kann "
    "können soll sollen"
)
GENERIC = CONTAINING | _words(
    "appear appears appeared occur occurs occurred happen happens happened exist exists existed see seen found "
    "find show shows shown log logged logs logfile record recorded records reported written listed tell give "
    "count counted number amount total altogether overall many much often times time file files text texts "
    "document documents context data stehen steht stand standen kommen kommt kam kamen vor vorkommen vorgekommen "
    "auftreten auftraten aufgetreten treten traten tritt passiert passierten geschah vorhanden finden finde "
    "findet fanden zeige zeig zeigen liste gesamt insgesamt anzahl zähle zählen viele viel oft häufig mal male "
    "datei dateien textes texten dokument dokumente kontext daten protokoll protokolle protokolliert log logdatei"
)
"""Words of many questions that say nothing about which lines are meant."""
CATEGORIES = _words(
    "service services system systems component components module modules server servers name names entry entries "
    "event events item items message messages row rows dienst dienste dienstes diensten system systeme komponente "
    "komponenten modul module name namen eintrag einträge ereignis ereignisse meldung meldungen nachricht "
    "nachrichten"
)
"""Nouns that say of what kind something is. The lines often do not: they count only where nothing else is named."""
UNITS = {
    "lines": _words("line lines zeile zeilen"),
    "words": _words("word words wort wörter worte wörtern"),
    "characters": _words("character characters letter letters zeichen buchstaben"),
    "files": _words("file files datei dateien"),
}

TIMES = re.compile(r"\b(?:how (?:many times|often)|wie (?:oft|häufig)|wie ?viele? mal)\b", re.IGNORECASE)
COUNT = re.compile(
    r"\b(?:how many|number of|amount of|count|wie ?viele|anzahl|zähle?n?)\b"
    r"|^(?:is|are|was|were) there\b|^(?:gibt|gab) es\b",
    re.IGNORECASE,
)
COUNT_NOUN = re.compile(r"\b[Ww]ie ?viel (?=[A-ZÄÖÜ])")
"""A German noun is written with a capital: "wie viel Fehler" counts, "wie viel kostet" does not."""
CALCULATE = re.compile(
    r"\b(?:different|distinct|unique|verschieden\w*|unterschiedlich\w*|percent\w*|prozent\w*"
    r"|\w+er than|(?:more|less) (?:\w+ )?than|\w+er als|(?:mehr|weniger) (?:\w+ )?als"
    r"|at (?:least|most)|mindestens|höchstens"
    r"|per (?:minute|hour|day|week|month|line)|pro (?:minute|stunde|tag|woche|monat|zeile)"
    r"|(?:before|after|since|until|vor|nach|seit|bis)(?: dem| den)? \d+[.:-]\d+"
    r"|(?:start|begin|end)(?:s|ing)? with|(?:beginn|fang|end)(?:t|en) (?:mit|auf)"
    r"|(?:empty|blank|leere[nrs]?) (?:lines?|zeilen?)|lines? (?:is|are|were) (?:empty|blank)"
    r"|zeilen? (?:ist|sind|waren) leer)\b",
    re.IGNORECASE,
)
"""What no search for words can answer, whatever else the question asks for."""
COMPARE = re.compile(
    r"\b(?:averages?|the mean|median|the sum|sum of|(?<!at )most(?! recent)|fewest|highest|lowest|largest|smallest"
    r"|longest|shortest|biggest|maximum|minimum|percent\w*|ratio|compare[ds]?|difference|total (?:of|number)"
    r"|durchschnitt\w*|mittelwert\w*|summe|meisten|wenigsten|höchste\w*|niedrigste\w*|größte\w*|kleinste\w*|längste\w*"
    r"|kürzeste\w*|prozent\w*|anteil|vergleich\w*|unterschied\w*)\b",
    re.IGNORECASE,
)
LIST = re.compile(
    r"^(?:please )?(?:show|list|print|display|find all|give me all)\b|\b(?:which|what|all|every) lines?\b"
    r"|^(?:bitte )?(?:zeige?|liste|nenne?|finde alle|gib mir alle)\b|\b(?:welche[rnms]?|alle|jede) zeilen?\b",
    re.IGNORECASE,
)
FIRST = re.compile(
    r"(?:\b(\d{1,3})\s+)?\b(?:first(?! names?\b)|earliest|zuerst|erste[rsnm]?|früheste[rsnm]?)\b(?:\s+(\d{1,3})\b)?",
    re.IGNORECASE,
)
LAST = re.compile(
    r"(?:\b(\d{1,3})\s+)?"
    r"\b(?:last(?! names?\b)|latest|most recent|newest|zuletzt|letzte[rsnm]?|späteste[rsnm]?|neueste[rsnm]?)\b"
    r"(?:\s+(\d{1,3})\b)?",
    re.IGNORECASE,
)
NEXT_QUESTION = re.compile(
    r"(?:[,;]?\s+(?:and|und)|[?.!])\s+(?=(?:which|when|who|whom|what|where|how|why|show|list"
    r"|welche\w*|wann|wer|wen|was|wo|wie|warum|zeige?|nenne)\b)",
    re.IGNORECASE,
)
"""The pattern of the beginning of a second question."""
WHICH = re.compile(r"^(?:in )?(?:which|what|welche[rsnm]?)$", re.IGNORECASE)

CONCEPTS: tuple[tuple[str, ...], ...] = (
    ("error", "errors", "fehler"),
    ("warning", "warnings", "warn", "warnung", "warnungen"),
    (
        *("fail", "fails", "failed", "failing", "failure", "failures"),
        *("fehlgeschlagen", "fehlschlag", "gescheitert", "ausgefallen", "ausfall", "ausfälle", "versagt", "versagte"),
    ),
    ("exception", "exceptions", "ausnahme", "ausnahmen"),
    ("timeout", "timeouts", "zeitüberschreitung", "zeitüberschreitungen"),
    ("crash", "crashes", "crashed", "absturz", "abstürze", "abgestürzt"),
    ("request", "requests", "anfrage", "anfragen"),
    ("user", "users", "benutzer", "nutzer"),
    ("order", "orders", "bestellung", "bestellungen"),
    ("payment", "payments", "zahlung", "zahlungen"),
    ("customer", "customers", "kunde", "kunden"),
    ("connection", "connections", "verbindung", "verbindungen"),
    ("login", "logins", "anmeldung", "anmeldungen"),
    ("invoice", "invoices", "rechnung", "rechnungen"),
    ("service", "services", "dienst", "dienste"),
)
"""Words that mean the same. One stands in for another only where no line has the other, and the answer says so."""
NEXT_CONCEPT = {"failed": "error"}
"""What to look for where no line has anything of a concept: a service that failed often left an "ERROR" line."""


def language_of(question: str) -> Language:
    """German if more of its words are; English where neither is sure."""
    words = re.findall(r"\w+", question.lower())
    german = sum(word in _GERMAN or bool(re.search("[äöüß]", word)) for word in words)
    return "de" if german > sum(word in _ENGLISH for word in words) else "en"
