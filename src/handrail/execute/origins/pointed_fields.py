"""Which fields the person's words point at: `her e-mail is on her website`, `the article that Bob posted`, `the same
participants as the introductory meeting`.

Naming a source does not make the source trusted: each rule trusts only the one value that the words can mean, and
never an account that money goes to.
"""

from __future__ import annotations

import re
from functools import lru_cache

from handrail.execute.origins.result_records import Record
from handrail.execute.origins.trusted_words import TrustedWords
from handrail.execute.origins.urls import addresses_in
from handrail.execute.origins.word_sets import word_set
from handrail.tools.effect_kinds import name_words
from handrail.tools.result_fields import Field, fields_of

_POINTS = (
    r"(?:(?:\b(?:her|his|their|its|whose|ihre|seine|deren)|['’]s)\s+e-?mails?(?:[- ]?address(?:es)?|-?adressen?)?"
    r"|\b(?:the|die)\s+(?:e-?mail|mail)?[- ]?(?:address(?:es)?|adressen?))"
    r"(?:\s+(?!and\b|und\b)[^\s.!?;]+){0,4}?\s+(?:in|on|at|from|auf|aus|unter)\s+(?:[^\s.!?;,]+\s+){0,3}?[\"'`“„(]?"
)
"""Words that point at an address and are followed by where it is to be found."""
LINKS = word_set("article link url website site page webpage blog artikel webseite seite")
_VERBS = word_set("email emails mail mails")
_LONGEST_PLACE = 300
_MOST_TEXT = 100_000


def is_mailbox(value: object) -> bool:
    """Whether a value is one address of a person."""
    return isinstance(value, str) and re.fullmatch(r"[^@\s<>,;]{1,64}@[^@\s<>,;]{1,255}", value) is not None


def is_mailbox_of_named_source(value: str, record: Record, words: TrustedWords) -> bool:
    """Whether the person says that somebody's address is to be found in a place, which is named whole, and this one is
    the only one there. With a second one, nothing tells which is meant."""
    if not is_mailbox(value) or record.of.changes:
        return False
    places = [each for each in record.of.arguments.values() if isinstance(each, str) and re.search(r"\w[./@]\w", each)]
    if not any(
        words.has(place, place=True)
        and re.search(_POINTS + re.escape(place) + r"(?![\w/@-])", words.said_by_person, re.IGNORECASE)
        for place in places
        if len(place) <= _LONGEST_PLACE
    ):
        return False
    texts = [str(each.value) for each in fields_of(record.of.result.content, None, untrusted=False)]
    if sum(map(len, texts)) > _MOST_TEXT or any(text.count("@") > 1 for text in texts):
        return False
    found = {address.casefold() for text in texts for address in addresses_in(text) if "@" in address}
    return found == {value.casefold()}


def is_link_asked_for(value: str, record: Record, field: Field, words: TrustedWords) -> bool:
    """Whether it is a whole address in an entry that the application tells apart, and the person speaks of what the
    entry links to. Nobody but its writer has said anything in it."""
    if not record.path or record.of.sends_out or "?" in value or "@" in value or not words.has_stem_of(LINKS):
        return False
    if not any(not each.outside for each in record.fields) or not isinstance(field.value, str):
        return False
    return value in addresses_in(field.value)


def is_field_spoken_of(record: Record, field: Field, words: TrustedWords) -> bool:
    """Whether the person names a field of the only thing that a call found."""
    if len({each.path[0] for each in record.of.records if each.path}) > 1:
        return False
    return words.has_stem_of(_field_words(field.path))


@lru_cache(512)
def _field_words(path: tuple[str | int, ...]) -> frozenset[str]:
    names = [step for step in path if isinstance(step, str)][-1:]
    return frozenset(word for name in names for word in name_words(name) if len(word) > 3 and word not in _VERBS)
