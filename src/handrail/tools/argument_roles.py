"""Which arguments of a tool direct what it does, and which only carry content.

What a definition says counts. Else the name and the format of an argument decide, and what they leave unclear directs.
"""

from __future__ import annotations

from typing import Any, Literal

from handrail.tools.definition import ToolDefinition
from handrail.tools.effect_kinds import UNMAKING, effect_kind, name_words

ArgumentRole = Literal["directs", "carries"]
_CONTENT = frozenset(
    {"body", "text", "content", "contents", "message", "description", "comment", "note", "notes", "html", "markdown"}
    | {"summary", "caption", "memo", "reason", "details", "feedback", "greeting", "purpose", "explanation", "remark"}
)
_HEADINGS = frozenset({"subject", "title", "headline", "heading", "topic"})
_OBJECTS = frozenset({"reference"})


def argument_roles(definition: ToolDefinition) -> dict[str, ArgumentRole]:
    """The role of each declared argument."""
    known = definition.input_schema.get("properties", {})
    return {name: argument_role(definition, name, schema) for name, schema in known.items()}


def argument_role(definition: ToolDefinition, name: str, schema: Any = None) -> ArgumentRole:
    """The role of one argument, declared or not."""
    if name in definition.directs:
        return "directs"
    if name in definition.carries:
        return "carries"
    if definition.sends_out and not definition.side_effects:
        return "directs"  # whatever a read is given, it is what it asks for
    if not _is_plain_text(schema):
        return "directs"
    words = name_words(name)
    last = words[-1] if words else ""
    kind = effect_kind(definition.name)
    if kind in UNMAKING and last not in ("reason", "comment", "note", "message"):
        return "directs"
    if last in _CONTENT:
        return "carries"
    if last in _HEADINGS:
        return "carries"
    if last in _OBJECTS and kind in ("pay", "refund"):
        return "carries"
    return "directs"


def _is_plain_text(schema: Any) -> bool:
    """Whether an argument is text without a form of its own."""
    if not isinstance(schema, dict):
        return False
    if {"format", "enum", "const", "pattern"} & schema.keys():
        return False
    kinds = schema.get("type")
    if kinds is None:
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(options, list) and options:
            return all(isinstance(each, dict) and each.get("type") in ("string", "null") for each in options) and all(
                _is_plain_text(each) for each in options if each.get("type") == "string"
            )
        return False
    return kinds == "string" or (isinstance(kinds, list) and set(kinds) <= {"string", "null"})
