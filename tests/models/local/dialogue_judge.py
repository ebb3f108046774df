"""Judges what the embedded model said in a dialogue, without any code of the product that checks it too.

A turn is right when its calls are right, its answer contains what it must, and the answer states no number, name
or date that is in neither a result nor anything the person said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from handrail.core.calls import ToolResult
from tests.models.local.dialogues import Turn

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NAME = re.compile(r"(?<![.!?:\n\"*-] )(?<!^)(?<!\n)\b[A-ZÄÖÜ][\wäöüß'-]*")
_ORDINARY = frozenset(
    # English words with a capital, and German nouns, that name nothing in particular. Read by hand.
    (
        "I",
        "I'm",
        "I'd",
        "I'll",
        "AI",
        "Ergebnis",
        "Antwort",
        "Werkzeug",
        "Werkzeuge",
        "Tag",
        "Problem",
        "Fehler",
        "Grad",
        "Ordnung",
    )
)


class Verdict(Struct, frozen=True):
    turn: Turn
    calls: tuple[tuple[str, dict[str, Any]], ...]
    answer: str
    calls_right: bool
    answer_right: bool
    invented: tuple[str, ...]

    @property
    def right(self) -> bool:
        return self.calls_right and self.answer_right and not self.invented


def judge(
    turn: Turn, calls: list[tuple[str, dict[str, Any]]], results: Iterable[ToolResult], heard: str, answer: str
) -> Verdict:
    """`heard` is everything that was said to the model before, with the names and descriptions of its tools."""
    evidence = " ".join(
        [heard, *(result.text for result in results), *(str(value) for _, given in calls for value in given.values())]
    )
    return Verdict(
        turn, tuple(calls), answer, _calls_right(turn, calls), _answer_right(turn, answer), invented(answer, evidence)
    )


def invented(answer: str, evidence: str) -> tuple[str, ...]:
    """Numbers, dates and names in the answer that are not in the evidence."""
    known = {_value(number) for number in _NUMBER.findall(evidence)}
    numbers = [number for number in _NUMBER.findall(answer) if _value(number) not in known]
    words = evidence.casefold()
    names = [name for name in _NAME.findall(answer) if name not in _ORDINARY and name.casefold() not in words]
    return (*numbers, *names)


def _value(number: str) -> str:
    plain = number.replace(",", ".").rstrip(".")
    return plain.rstrip("0").rstrip(".") if plain.count(".") == 1 else plain


def _calls_right(turn: Turn, calls: list[tuple[str, dict[str, Any]]]) -> bool:
    left = list(calls)
    for name, wanted in turn.calls:
        found = next((call for call in left if call[0] == name and _has(call[1], wanted)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def _has(given: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(_same(given.get(key), value) for key, value in wanted.items())


def _same(given: Any, wanted: Any) -> bool:
    if isinstance(given, str) and isinstance(wanted, str):
        return given.strip().casefold().startswith(wanted.casefold())
    return bool(given == wanted)


def _answer_right(turn: Turn, answer: str) -> bool:
    said = answer.casefold()
    return bool(said.strip()) and all(
        any(choice.casefold() in said for choice in wanted.split("|")) for wanted in turn.says
    )
