"""Whether a sentence of a small model about one result says what that result says, and no more.

Most of its wrong sentences have only right numbers ("270.0 euros are 270.0 dollars", where 250 euros are). So a
sentence is kept only where there is little to get wrong: one new value, stated once, in words that were said or
returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from handrail.models.local.answers.claims import AnswerEvidence, canonical_token, claim_tokens, has_digit
from handrail.models.local.answers.phrases import JUDGEMENTS, OF_TEMPERATURE, TEMPERATURE, LanguagePhrases
from handrail.models.local.answers.result_text import SettledCall, tool_label

_FORM = re.compile(r"[^\n{}<>\"\[\]*]+[.!]")
_FEWEST, _MOST = 3, 25
"""Words of a sentence that is kept."""
_LONGEST_VALUE = 40
_SYMBOL = re.compile(r"[^\w\s.,:;!?'’()-]")
"""A currency, a percent sign and the like: it says what a number is a number of."""
_SEVERAL_ANSWERS = re.compile(
    r"\W*(is|are|was|were|do|does|did|has|have|can|will|ist|sind|war|waren|hat|haben|habe|kann|wird|gibt)\b|.*\b(or|and|oder|und)\b",
    re.IGNORECASE | re.DOTALL,
)
"""A question for yes or no, or about several things: a sentence in its words may state the wrong one."""


def is_plausible(sentence: str, question: str, settled: SettledCall, words: LanguagePhrases) -> bool:
    """Whether the sentence may stand for the result of this call to this question."""
    said = [canonical_token(token) for token in claim_tokens(sentence)]
    if not _FORM.fullmatch(sentence) or not _FEWEST <= len(said) <= _MOST or JUDGEMENTS.intersection(said):
        return False
    asked = [canonical_token(token) for token in claim_tokens(question)]
    returned = (
        None if _SEVERAL_ANSWERS.match(question) else _new_value(settled.result.content, AnswerEvidence([question]))
    )
    if returned is None or not _keeps_symbols(sentence, question, returned):
        return False
    value = canonical_token(claim_tokens(returned)[0])
    if said.count(value) != 1:
        return False
    joins = words.function_words
    in_place = _numbers_keep_their_place([*_content(said, joins)], [*_content(asked, joins)], value)
    call = settled.call
    evidence = AnswerEvidence([question, str(call.arguments), settled.result.text, tool_label(call.name)])
    return in_place and all(_known(word, evidence, words) for word in said)


def _new_value(content: Any, asked: AnswerEvidence) -> str | None:
    """The one number, date or code that the person did not say, as the tool wrote it; None if there are several."""
    match content:
        case bool() | None | str() | list():
            return None
        case dict():
            parts = [str(part) for part in content.values() if not isinstance(part, bool | None)]
            if any(isinstance(part, dict | list | bool | None) for part in content.values()):
                return None
        case _:
            parts = [str(content)]
    new = [part for part in parts if not all(asked.has(token) for token in claim_tokens(part))]
    numbers = [part for part in new if has_digit(part)]
    others = [part for part in new if not has_digit(part)]
    if len(numbers) != 1 or len(claim_tokens(numbers[0])) != 1 or any(len(claim_tokens(part)) != 1 for part in others):
        return None
    return numbers[0] if len(numbers[0]) <= _LONGEST_VALUE else None


def _keeps_symbols(sentence: str, question: str, value: str) -> bool:
    """Whether a value with a symbol stands in the sentence as it was returned, and no other has been given one."""
    if _SYMBOL.search(value) and value not in sentence:
        return False
    return set(_SYMBOL.findall(sentence)) <= set(_SYMBOL.findall(question + value))


def _numbers_keep_their_place(said: list[str], asked: list[str], value: str) -> bool:
    """A number of the question stands beside the same word as there, and the new value beside none of those words."""
    neighbours = {word: _beside(asked, word) for word in asked if has_digit(word)}
    for number in filter(has_digit, said):
        before, after = _beside(said, number)
        if number == value:
            if any((before and before == left) or (after and after == right) for left, right in neighbours.values()):
                return False
        elif number not in neighbours or not ({before, after} - {""}).intersection(neighbours[number]):
            return False
    return True


def _content(words: list[str], joins: frozenset[str]) -> Iterator[str]:
    """The words, with nothing in place of those that only join a sentence."""
    return ("" if word in joins else word for word in words)


def _beside(words: list[str], word: str) -> tuple[str, str]:
    place = words.index(word)
    return (words[place - 1] if place else "", words[place + 1] if place + 1 < len(words) else "")


def _known(word: str, evidence: AnswerEvidence, words: LanguagePhrases) -> bool:
    if word in TEMPERATURE:
        return any(evidence.has(each) for each in OF_TEMPERATURE)
    return word in words.function_words or evidence.has(word)
