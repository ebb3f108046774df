"""The tools of a request as a grammar of their calls, or as one schema of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from handrail.core.errors import UsageError
from handrail.core.model_request import ToolOffer
from handrail.models.grammar.grammar_rules import EMPTY, CharsRule, Grammar, Node, RepeatRule, alt, seq
from handrail.models.grammar.schema_grammar import GrammarBuilder
from handrail.models.prompted.formats import CallFormat, format_named

_MOST_CALLS = 16
_TEXT = CharsRule((("\x00", "\x00"),), negated=True)


def tool_call_grammar(
    tools: Sequence[ToolOffer], format: str, *, parallel: bool = True, words: bool = False
) -> Grammar:
    """What a model may write to call these tools: in the frame of the format, arguments by their schemas.

    With `words` it may also write text instead. Such text does not begin as a call does, so only formats whose calls
    begin with a mark can tell the two apart.

    Raises:
        UsageError: There are no tools, or text cannot be told from calls in this format.
        InvalidSchema: No grammar can be made of a tool's schema.
    """
    frame = format_named(format).frame
    if not tools:
        raise UsageError("a grammar of tool calls needs at least one tool")
    builder = GrammarBuilder()
    options: list[Node] = []
    for tool in tools:
        arguments = builder.add(tool.input_schema, f"tool {tool.name!r}", tool.name)
        options.append(seq(frame.begin(tool.name), arguments, frame.closes))
    call = builder.rule(alt(*options))
    several = seq(call, RepeatRule(seq("\n", call), 0, _MOST_CALLS - 1)) if parallel else call
    return builder.grammar(alt(several, *_words(format_named(format))) if words else several)


def call_begins_with_mark(format: CallFormat) -> bool:
    """Whether a call in this format can be told from text by its first character."""
    return not format.frame.opens[0].isalnum()


def call_schema(tools: Sequence[ToolOffer]) -> dict[str, Any]:
    """The JSON Schema of a call to any of these tools, for servers that take a schema of the whole reply."""
    definitions = {
        f"tool{index}": _moved(tool.input_schema, f"#/$defs/tool{index}") for index, tool in enumerate(tools)
    }
    options = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": {"$ref": f"#/$defs/tool{index}"}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for index, tool in enumerate(tools)
    ]
    return {"anyOf": options, "$defs": definitions}


def _words(format: CallFormat) -> tuple[Node, ...]:
    if not call_begins_with_mark(format):
        raise UsageError(f"calls in the format {format.name!r} begin like text; leave `words` out")
    first = format.frame.opens[0]
    return (seq(CharsRule(((first, first), ("\x00", "\x00")), negated=True), RepeatRule(_TEXT, 0, None)), EMPTY)


def _moved(schema: Any, to: str) -> Any:
    """A schema that stands elsewhere: its references to itself are to there."""
    match schema:
        case dict():
            return {key: _moved_under(key, value, to) for key, value in schema.items() if key not in ("$schema", "$id")}
        case list():
            return [_moved(each, to) for each in schema]
    return schema


def _moved_under(key: str, value: Any, to: str) -> Any:
    match key:
        case "$ref" if isinstance(value, str) and value.startswith("#"):
            return to + value[1:]
        case "enum" | "const" | "default" | "examples":
            return value
        case "properties" | "$defs" | "definitions" | "patternProperties" if isinstance(value, dict):
            return {name: _moved(each, to) for name, each in value.items()}
    return _moved(value, to)
