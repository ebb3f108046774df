"""Grammar rules for JSON of any kind, taken into a grammar where they are referred to."""

from __future__ import annotations

from handrail.models.grammar.grammar_rules import (
    AlternativesRule,
    CharsRule,
    LiteralRule,
    Node,
    RepeatRule,
    RuleReference,
    SequenceRule,
    alt,
    optional,
    seq,
)

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
