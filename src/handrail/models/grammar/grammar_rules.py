"""A grammar as a value: its text in llama.cpp's notation GBNF, its rules for any JSON, without what never ends."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import assert_never

from msgspec import Struct


class LiteralRule(Struct, frozen=True):
    text: str


class CharsRule(Struct, frozen=True):
    """One character in some ranges, or, negated, in none of them."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False


class SequenceRule(Struct, frozen=True):
    parts: tuple[Node, ...]


class AlternativesRule(Struct, frozen=True):
    options: tuple[Node, ...]


class RepeatRule(Struct, frozen=True):
    node: Node
    least: int
    most: int | None
    """The most repetitions; None is unbounded."""


class RuleReference(Struct, frozen=True):
    rule: str


Node = LiteralRule | CharsRule | SequenceRule | AlternativesRule | RepeatRule | RuleReference


EMPTY = SequenceRule(())


class Grammar(Struct, frozen=True):
    rules: Mapping[str, Node]
    """`root` is where it begins."""
    lost: tuple[str, ...] = ()
    """What the grammar does not enforce, as `path: keyword`."""

    @property
    def text(self) -> str:
        """The grammar in GBNF."""
        return "".join(f"{name} ::= {_written(node)}\n" for name, node in self.rules.items())


def seq(*parts: Node | str) -> Node:
    nodes = tuple(LiteralRule(part) if isinstance(part, str) else part for part in parts if part != "")
    return nodes[0] if len(nodes) == 1 else SequenceRule(nodes)


def alt(*options: Node) -> Node:
    return options[0] if len(options) == 1 else AlternativesRule(options)


def optional(node: Node) -> Node:
    return RepeatRule(node, 0, 1)


def _written(node: Node) -> str:
    match node:
        case LiteralRule(text):
            return f'"{_IN_LITERAL.sub(_escaped, text)}"'
        case CharsRule(ranges, negated):
            return f"[{'^' if negated else ''}{''.join(map(_range, ranges))}]"
        case SequenceRule(parts):
            return " ".join(_inner(part) for part in parts) or '""'
        case AlternativesRule(options):
            return " | ".join(map(_written, options))
        case RepeatRule(inner, least, most):
            return _inner(inner) + _times(least, most)
        case RuleReference(rule):
            return rule
    assert_never(node)


def _inner(node: Node) -> str:
    text = _written(node)
    return f"({text})" if isinstance(node, SequenceRule | AlternativesRule | RepeatRule) else text


def _times(least: int, most: int | None) -> str:
    match least, most:
        case 0, 1:
            return "?"
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case _, None:
            return f"{{{least},}}"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def _range(pair: tuple[str, str]) -> str:
    first, last = (_IN_CLASS.sub(_escaped, end) for end in pair)
    return first if first == last else f"{first}-{last}"


_IN_LITERAL = re.compile(r'["\\\x00-\x1f\x7f]')
_IN_CLASS = re.compile(r"[\]\[\\^\-\"\x00-\x1f\x7f]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\", "[": "\\[", "]": "\\]"}


def _escaped(found: re.Match[str]) -> str:
    return _NAMED.get(found[0], f"\\x{ord(found[0]):02X}")


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


_HEX = CharsRule((("0", "9"), ("a", "f"), ("A", "F")))
_DIGIT = CharsRule((("0", "9"),))
POSITIVE = SequenceRule((CharsRule((("1", "9"),)), RepeatRule(_DIGIT, 0, 14)))
NATURAL = alt(LiteralRule("0"), POSITIVE)
_MINUS = optional(LiteralRule("-"))
SHARED: dict[str, Node] = {
    "char": AlternativesRule(
        (
            CharsRule((('"', '"'), ("\\", "\\"), ("\x7f", "\x7f"), ("\x00", "\x1f")), negated=True),
            SequenceRule((LiteralRule("\\"), CharsRule(tuple((each, each) for each in '"\\/bfnrt')))),
            # Not the halves of surrogate pairs: alone they are no text.
            SequenceRule(
                (
                    LiteralRule("\\u"),
                    CharsRule((("0", "9"), ("a", "c"), ("e", "f"), ("A", "C"), ("E", "F"))),
                    *[_HEX] * 3,
                )
            ),
        )
    ),
    "string": seq('"', RepeatRule(RuleReference("char"), 0, None), '"'),
    "integer": SequenceRule((_MINUS, NATURAL)),
    "number": SequenceRule(
        (
            _MINUS,
            NATURAL,
            optional(SequenceRule((LiteralRule("."), RepeatRule(_DIGIT, 1, 15)))),
            optional(
                SequenceRule(
                    (
                        CharsRule((("e", "e"), ("E", "E"))),
                        optional(CharsRule((("+", "+"), ("-", "-")))),
                        RepeatRule(_DIGIT, 1, 2),
                    )
                )
            ),
        )
    ),
    "boolean": alt(LiteralRule("true"), LiteralRule("false")),
    "null": LiteralRule("null"),
    "pair": seq(RuleReference("string"), ": ", RuleReference("value")),
    "object": seq(
        "{", optional(seq(RuleReference("pair"), RepeatRule(seq(", ", RuleReference("pair")), 0, None))), "}"
    ),
    "array": seq(
        "[", optional(seq(RuleReference("value"), RepeatRule(seq(", ", RuleReference("value")), 0, None))), "]"
    ),
    "value": AlternativesRule(tuple(map(RuleReference, ("object", "array", "string", "number", "boolean", "null")))),
}
