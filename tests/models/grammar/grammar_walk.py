"""A text that a grammar accepts, chosen at random, and whether it accepts a given one."""

from __future__ import annotations

import random

from handrail.models.grammar.grammar_rules import (
    AlternativesRule,
    CharsRule,
    Grammar,
    LiteralRule,
    Node,
    RepeatRule,
    RuleReference,
    SequenceRule,
)

_SAMPLE = " !#azAZ09_/é€😀~"
_DEEP = 12


def walk(grammar: Grammar, chance: random.Random) -> str:
    least = _least(grammar)
    out: list[str] = []
    _walk(RuleReference("root"), grammar, chance, out, 0, least)
    return "".join(out)


def _walk(
    node: Node, grammar: Grammar, chance: random.Random, out: list[str], depth: int, least: dict[str, int]
) -> None:
    match node:
        case LiteralRule(text):
            out.append(text)
        case CharsRule(ranges, False):
            first, last = chance.choice(ranges)
            out.append(chr(chance.randint(ord(first), ord(last))))
        case CharsRule(ranges, True):
            out.append(chance.choice([each for each in _SAMPLE if not any(a <= each <= b for a, b in ranges)]))
        case SequenceRule(parts):
            for part in parts:
                _walk(part, grammar, chance, out, depth, least)
        case AlternativesRule(options):
            # Deep down only what ends soonest.
            option = min(options, key=lambda each: _cost(each, least)) if depth > _DEEP else chance.choice(options)
            _walk(option, grammar, chance, out, depth, least)
        case RepeatRule(inner, fewest, most):
            upper = fewest if depth > _DEEP else min(fewest + 3, fewest + 3 if most is None else most)
            for _ in range(chance.randint(fewest, upper)):
                _walk(inner, grammar, chance, out, depth, least)
        case RuleReference(rule):
            _walk(grammar.rules[rule], grammar, chance, out, depth + 1, least)


def _cost(node: Node, least: dict[str, int]) -> int:
    match node:
        case LiteralRule() | CharsRule():
            return 1
        case SequenceRule(parts):
            return sum(_cost(part, least) for part in parts)
        case AlternativesRule(options):
            return min(_cost(option, least) for option in options)
        case RepeatRule(inner, fewest, _):
            return fewest * _cost(inner, least)
        case RuleReference(rule):
            return least[rule]


def _least(grammar: Grammar) -> dict[str, int]:
    """How much each rule takes at the least."""
    least = dict.fromkeys(grammar.rules, 1_000_000)
    for _ in grammar.rules:
        least = {name: min(1_000_000, 1 + _cost(node, least)) for name, node in grammar.rules.items()}
    return least
