"""What "always" would mean, in a sentence: which tool, which values, for how long. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from handrail.core.confirmation import Confirmation
from handrail.core.json_display import exact_json
from handrail.desk.values import RuleOffer, RuleValue
from handrail.execute.rules import Rule

HOW_LONG = "It holds until you take it back (handrail confirm forget), and only while the tool stays as it is now."
_BELOW = "/**"


def describe_rule_offers(rules: Iterable[str], question: Confirmation) -> tuple[RuleOffer, ...]:
    """The rules that a question offers, each with what a person needs to know to choose one."""
    return tuple(_offer(Rule.parse(text), text, question) for text in rules)


def rule_offer_sentence(offer: RuleOffer) -> str:
    """For a terminal. The page has words of its own, in the person's language."""
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
