"""A grammar as a value, and its text in llama.cpp's notation, GBNF."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import assert_never

from msgspec import Struct


class LiteralRule(Struct, frozen=True):
    text: str


class CharsRule(Struct, frozen=True):
    """One character of some ranges, or, negated, of none of them."""

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
    """None is without end."""


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
        """In GBNF."""
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
