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
_FETCHED = frozenset({"url", "urls", "uri", "href", "link", "links", "webhook", "endpoint", "iri"})
_OBJECTS = frozenset({"reference"})
_DEEPEST = 8


def argument_roles(definition: ToolDefinition) -> dict[str, ArgumentRole]:
    """The role of each declared argument."""
    known = definition.input_schema.get("properties", {})
    return {name: argument_role(definition, name, schema) for name, schema in known.items()}


def sends_out(definition: ToolDefinition) -> bool:
    """Whether what a tool is given leaves: it says so, or it is given the address of what it fetches."""
    if definition.sends_out:
        return True
    known = definition.input_schema.get("properties")
    return isinstance(known, dict) and any(
        not _FETCHED.isdisjoint(name_words(name)) or (isinstance(schema, dict) and schema.get("format") in _FETCHED)
        for name, schema in known.items()
    )


def argument_role(definition: ToolDefinition, name: str, schema: Any = None) -> ArgumentRole:
    """The role of one argument, declared or not."""
    if name in definition.directs:
        return "directs"
    if name in definition.carries:
        return "carries"
    if sends_out(definition) and not definition.side_effects:
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


def nested_role(definition: ToolDefinition, name: str, steps: tuple[str, ...], schema: Any) -> ArgumentRole:
    """The role of a value within an argument that is an object, or a list of them: where the whole directs, what its
    own name says is content is content."""
    role = argument_role(definition, name, schema)
    if role == "carries" or not steps or (sends_out(definition) and not definition.side_effects):
        return role
    kind, last = effect_kind(definition.name), (name_words(steps[-1]) or ("",))[-1]
    if kind in UNMAKING or not _is_plain_text(schema_at(definition, schema, steps)):
        return role
    return "carries" if last in _CONTENT | _HEADINGS or (last in _OBJECTS and kind in ("pay", "refund")) else role


def schema_at(definition: ToolDefinition, schema: Any, steps: tuple[str, ...]) -> Any:
    """The schema of a value within an argument; lists are no steps. Nothing where it is not declared."""
    found, _ = _declared_at(definition, schema, steps)
    return found


def is_required_at(definition: ToolDefinition, schema: Any, steps: tuple[str, ...]) -> bool:
    """Whether the object that a value is in must have it."""
    return _declared_at(definition, schema, steps)[1]


def _declared_at(definition: ToolDefinition, schema: Any, steps: tuple[str, ...]) -> tuple[Any, bool]:
    required = False
    for step in steps:
        known = _with_properties(definition.input_schema, schema, 0)
        if known is None:
            return None, False
        required = step in known.get("required", ())
        schema = known["properties"].get(step)
    return _resolved(definition.input_schema, schema), required


def _with_properties(whole: Any, schema: Any, depth: int) -> Any:
    """The schema of the object that is meant by one, which may be the item of a list, or one of several."""
    schema = _resolved(whole, schema)
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return None
    if isinstance(schema.get("properties"), dict):
        return schema
    for each in (schema.get("items"), *(schema.get("anyOf") or schema.get("oneOf") or ())):
        if each is not None and (found := _with_properties(whole, each, depth + 1)) is not None:
            return found
    return None


def _resolved(whole: Any, schema: Any) -> Any:
    for _ in range(_DEEPEST):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        schema = whole
        for step in reference[2:].split("/"):
            schema = schema.get(step) if isinstance(schema, dict) else None
    return schema


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
