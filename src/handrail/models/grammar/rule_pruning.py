"""A grammar without what never ends: a model that went in there could not come out."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import assert_never

from handrail.models.grammar.grammar_rules import (
    EMPTY,
    AlternativesRule,
    CharsRule,
    LiteralRule,
    Node,
    RepeatRule,
    RuleReference,
    SequenceRule,
    alt,
)


def without_endless_rules(rules: Mapping[str, Node]) -> dict[str, Node]:
    """The rules of which some text is whole, and in them only what can become part of one."""
    ends: set[str] = set()
    before = -1
    while before < len(ends):
        before = len(ends)
        # In the order in which they are made, the inner ones first, one round mostly does.
        ends.update(name for name, node in rules.items() if name not in ends and _pruned(node, ends) is not None)
    pruned = {name: _pruned(node, ends) for name, node in rules.items()}
    return {name: node for name, node in pruned.items() if node is not None}


def _pruned(node: Node, ends: Container[str]) -> Node | None:
    match node:
        case LiteralRule() | CharsRule():
            return node
        case RuleReference(rule):
            return node if rule in ends else None
        case SequenceRule(parts):
            kept = [_pruned(part, ends) for part in parts]
            whole = [part for part in kept if part is not None]
            return SequenceRule(tuple(whole)) if len(whole) == len(kept) else None
        case AlternativesRule(options):
            left = [option for option in (_pruned(each, ends) for each in options) if option is not None]
            return alt(*left) if left else None
        case RepeatRule(inner, least, most):
            repeated = _pruned(inner, ends)
            if repeated is None:
                return None if least else EMPTY
            return RepeatRule(repeated, least, most)
    assert_never(node)
