"""What "always" would mean, in a sentence: which tool, which values, for how long. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Any

from handrail.core.canonical import canonical_json
from handrail.core.confirmation import Confirmation
from handrail.core.display import exact_json
from handrail.core.errors import UsageError
from handrail.core.redact import redact
from handrail.desk.values import RuleOffer, RuleValue
from handrail.execute.rules import Rule

HOW_LONG = "It is valid until you remove it (handrail confirm forget), and only while the tool does not change."
_BELOW = "/**"


def describe_rule_offers(rules: Iterable[str], question: Confirmation) -> tuple[RuleOffer, ...]:
    """The rules that a question offers, each with what a person needs to know to choose one."""
    return tuple(_offer(Rule.parse(text), text, question) for text in rules)


def rule_offer_sentence(offer: RuleOffer) -> str:
    """The sentence for a terminal. The page has texts of its own, in the person's language."""
    values = " and ".join(_value(each) for each in offer.values)
    when = f"whenever {values}" if values else "with any arguments"
    free = f"; {', '.join(offer.free)} may be anything" if values and offer.free else ""
    return f"Allow {offer.tool} without asking {when}{free}."


def _offer(rule: Rule, text: str, question: Confirmation) -> RuleOffer:
    named = {name for name, _ in rule.arguments}
    return RuleOffer(
        rule=text,
        tool=_readable(rule.tool),
        values=tuple(_values(rule)),
        free=tuple(_readable(name) for name in question.arguments if name not in named),
    )


def _values(rule: Rule) -> Iterator[RuleValue]:
    for name, pattern in rule.arguments:
        inside = pattern.endswith(_BELOW)
        value = pattern.removesuffix(_BELOW) if inside else pattern
        yield RuleValue(name=_readable(name), value=_readable(value), inside=inside)


def _value(each: RuleValue) -> str:
    return f'{each.name} is {"anything in the folder " if each.inside else ""}"{each.value}"'


def _readable(text: str) -> str:
    """Text in which no letter hides, or looks like one that it is not."""
    return exact_json(text)[1:-1]


_DIGITS = len("sha256:") + 24
_LONGEST = 200
_WILD = frozenset("*?")
_PLACES = ("path", "file", "folder", "dir", "url", "uri", "to", "target", "name")


def suggest_rules(question: Confirmation) -> tuple[str, ...]:
    """Rules as they are written, each of which covers the question. None where a path climbs, or leads nobody knows
    where: a rule for it would be for another place than it seems."""
    values = {name: value for name, value in question.shown.items() if value == question.arguments[name]}
    if any(name not in question.locations and _climbs(value) for name, value in values.items()):
        return ()
    if None in question.locations.values():
        return ()
    values |= {name: place.canonical for name, place in question.locations.items() if place is not None}
    said = {name: _pattern(value) for name, value in values.items()}
    exact = {name: pattern for name, pattern in said.items() if pattern is not None}
    places = {
        name: pattern for name, pattern in exact.items() if name in question.locations or _is_place(name, pattern)
    }
    folders = {
        name: _same_folder_pattern(pattern) for name, pattern in places.items() if posixpath.dirname(pattern).strip("/")
    }
    tool = f"{question.tool}@{question.definition[:_DIGITS]}" if question.definition else question.tool
    wanted: tuple[dict[str, str], ...] = (exact, places, folders, {})
    written = (" ".join(("allow", tool, *(f"{name}={value}" for name, value in each.items()))) for each in wanted)
    return tuple(dict.fromkeys(rule for rule in _said_exactly(written, question)))


def _said_exactly(rules: Iterator[str], question: Confirmation) -> Iterator[str]:
    for text in rules:
        try:
            rule = Rule.parse(text)
        except UsageError:  # a name that cannot stand in a rule
            continue
        if str(rule) == text and rule.covers(question):
            yield text


def _pattern(value: Any) -> str | None:
    """A value as the pattern that only it fits; None if there is no such."""
    if isinstance(value, dict | list | tuple) or value is None or redact(value) != value:
        return None
    text = value if isinstance(value, str) else canonical_json(value).decode()
    if not text or len(text) > _LONGEST or _WILD & set(text) or not text.isprintable() or " " in text:
        return None
    return text


def _climbs(value: Any) -> bool:
    """Whether a value, or one in it, is a path that goes up with `..`."""
    match value:
        case str():
            return ".." in re.split(r"[/\\:]", value)
        case dict():
            return any(map(_climbs, value.values()))
        case list() | tuple():
            return any(map(_climbs, value))
    return False


def _is_place(name: str, pattern: str) -> bool:
    return "/" in pattern or any(word in _PLACES for word in name.lower().split("_"))


def _same_folder_pattern(path: str) -> str:
    """Everything in the folder that something is in."""
    return f"{posixpath.dirname(path).rstrip('/')}/**"
