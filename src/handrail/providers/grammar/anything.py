"""Grammar rules for JSON of any kind, taken into a grammar where they are referred to."""

from __future__ import annotations

from handrail.providers.grammar.rules import Alt, Chars, Literal, Node, Ref, Repeat, Seq, alt, optional, seq

_HEX = Chars((("0", "9"), ("a", "f"), ("A", "F")))
_DIGIT = Chars((("0", "9"),))
POSITIVE = Seq((Chars((("1", "9"),)), Repeat(_DIGIT, 0, 14)))
NATURAL = alt(Literal("0"), POSITIVE)
_MINUS = optional(Literal("-"))
SHARED: dict[str, Node] = {
    "char": Alt(
        (
            Chars((('"', '"'), ("\\", "\\"), ("\x7f", "\x7f"), ("\x00", "\x1f")), negated=True),
            Seq((Literal("\\"), Chars(tuple((each, each) for each in '"\\/bfnrt')))),
            # Not the halves of surrogate pairs: alone they are no text.
            Seq((Literal("\\u"), Chars((("0", "9"), ("a", "c"), ("e", "f"), ("A", "C"), ("E", "F"))), *[_HEX] * 3)),
        )
    ),
    "string": seq('"', Repeat(Ref("char"), 0, None), '"'),
    "integer": Seq((_MINUS, NATURAL)),
    "number": Seq(
        (
            _MINUS,
            NATURAL,
            optional(Seq((Literal("."), Repeat(_DIGIT, 1, 15)))),
            optional(
                Seq((Chars((("e", "e"), ("E", "E"))), optional(Chars((("+", "+"), ("-", "-")))), Repeat(_DIGIT, 1, 2)))
            ),
        )
    ),
    "boolean": alt(Literal("true"), Literal("false")),
    "null": Literal("null"),
    "pair": seq(Ref("string"), ": ", Ref("value")),
    "object": seq("{", optional(seq(Ref("pair"), Repeat(seq(", ", Ref("pair")), 0, None))), "}"),
    "array": seq("[", optional(seq(Ref("value"), Repeat(seq(", ", Ref("value")), 0, None))), "]"),
    "value": Alt(tuple(map(Ref, ("object", "array", "string", "number", "boolean", "null")))),
}
