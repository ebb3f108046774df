"""Regular expressions to a grammar, as far as they are simple: anchored, and of characters that JSON does not escape.

The alternatives, groups, classes and counts that people write for codes and dates are
read. Anything else is not translated, and the caller reports it as lost.
"""

from __future__ import annotations

from handrail.models.grammar.grammar_rules import (
    AlternativesRule,
    CharsRule,
    LiteralRule,
    Node,
    RepeatRule,
    SequenceRule,
    alt,
    seq,
)

_CLASSES: dict[str, tuple[tuple[str, str], ...]] = {
    "d": (("0", "9"),),
    "w": (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")),
}
_ANY: tuple[tuple[str, str], ...] = ((" ", "!"), ("#", "["), ("]", "~"))
_SPECIAL = frozenset("\\^$.|?*+()[]{}")
_LARGEST = 256


class UnsupportedPattern(Exception):
    """The expression is not one of the simple ones."""


def pattern_node(pattern: str) -> Node:
    """What the expression matches, for use between the quotes of a JSON string.

    Raises:
        Beyond: It is not simple.
    """
    if not (pattern.startswith("^") and pattern.endswith("$") and not pattern.endswith("\\$")):
        raise UnsupportedPattern
    reader = _PatternReader(pattern[1:-1])
    node = reader.options()
    # `^a|b$` anchors each end of only one alternative.
    if reader.left or isinstance(node, AlternativesRule):
        raise UnsupportedPattern
    return node


class _PatternReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    @property
    def left(self) -> str:
        return self._text[self._at :]

    def options(self) -> Node:
        options = [self._sequence()]
        while self._skip("|"):
            options.append(self._sequence())
        return alt(*options)

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._counted(self._atom()))
        return seq(*parts) if parts else SequenceRule(())

    def _atom(self) -> Node:
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return CharsRule(_ANY)
            case "\\":
                ranges = self._escape()
                return CharsRule(ranges) if ranges[0][0] != ranges[0][1] else LiteralRule(ranges[0][0])
        if character in _SPECIAL:
            raise UnsupportedPattern
        return LiteralRule(_plain(character))

    def _group(self) -> Node:
        if self._skip("?") and not self._skip(":"):
            raise UnsupportedPattern
        self._depth += 1
        if self._depth > 50:
            raise UnsupportedPattern
        node = self.options()
        self._depth -= 1
        if not self._skip(")"):
            raise UnsupportedPattern
        return node

    def _class(self) -> Node:
        if self._skip("^"):
            raise UnsupportedPattern
        ranges: list[tuple[str, str]] = []
        while not self._skip("]"):
            character = self._next()
            if character == "\\":
                ranges.extend(self._escape())
                continue
            if self.left.startswith("-") and not self.left.startswith("-]"):
                self._next()
                ranges.append((_plain(character), _plain(self._next())))
            else:
                ranges.append((_plain(character), _plain(character)))
        if not ranges or any(first > last or first <= "\\" <= last or first <= '"' <= last for first, last in ranges):
            raise UnsupportedPattern
        return CharsRule(tuple(ranges))

    def _escape(self) -> tuple[tuple[str, str], ...]:
        character = self._next()
        if character in _CLASSES:
            return _CLASSES[character]
        if character.isalnum():
            raise UnsupportedPattern
        return ((_plain(character), _plain(character)),)

    def _counted(self, node: Node) -> Node:
        if self._at >= len(self._text):
            return node
        match self._text[self._at]:
            case "?":
                self._at += 1
                return RepeatRule(node, 0, 1)
            case "*":
                self._at += 1
                return RepeatRule(node, 0, None)
            case "+":
                self._at += 1
                return RepeatRule(node, 1, None)
            case "{":
                self._at += 1
                return self._braces(node)
        return node

    def _braces(self, node: Node) -> Node:
        inside, closed, _ = self.left.partition("}")
        self._at += len(inside) + 1
        least, comma, most = inside.partition(",")
        if not closed or not _is_count(least) or not (_is_count(most) or most == ""):
            raise UnsupportedPattern
        upper = int(most) if most else None if comma else int(least)
        if max(int(least), upper or 0) > _LARGEST or (upper is not None and upper < int(least)):
            raise UnsupportedPattern
        return RepeatRule(node, int(least), upper)

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise UnsupportedPattern
        self._at += 1
        return self._text[self._at - 1]

    def _skip(self, character: str) -> bool:
        if self.left[:1] != character:
            return False
        self._at += 1
        return True


def _plain(character: str) -> str:
    """A character that stands for itself in JSON; the others would need an escape there."""
    if character in '"\\' or not " " <= character <= "~":
        raise UnsupportedPattern
    return character


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 4
