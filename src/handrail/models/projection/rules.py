"""What each service takes of JSON Schema, as data."""

from __future__ import annotations

import re

from msgspec import Struct

SILENT = frozenset({"$schema", "$id", "$anchor", "$comment", "$vocabulary", "$defs", "definitions", "id"})
"""Bookkeeping. It says nothing about a value, so leaving it out loses nothing."""
LOOKAROUND = re.compile(r"\(\?<?[=!]")
NOT_AT_ROOT = frozenset({"anyOf", "oneOf", "allOf", "not", "enum", "const"})
"""What services refuse at the root of a tool’s schema."""


class SchemaRules(Struct, frozen=True, kw_only=True):
    name: str
    keywords: frozenset[str] | None = None
    """The keywords that are taken; None is all of them, as they are."""
    formats: frozenset[str] | None = None
    """The values of `format` that are taken."""
    enums: frozenset[str] | None = None
    """The JSON types that may stand in an `enum`."""
    references: bool = True
    """`$ref` is taken, to `#` or to `#/$defs/…`, with nothing beside it. If not, what it names takes its place."""
    lookaround: bool = True
    """Patterns may look ahead and behind."""
    plain_root: bool = True
    """The root is an object without combinations, `enum`, `not` or `$ref`."""
    items_needed: bool = False
    """Every array says what its items are."""
    declared: bool = False
    """Every required property is among the properties."""
    strict: bool = False
    """Every subschema has a type, every object is closed, and every property is required: one that may be left out
    is null instead. `without_nulls` takes those out again."""


FULL = SchemaRules(name="full", plain_root=False)
OPENAI = SchemaRules(name="openai", items_needed=True)
ANTHROPIC = SchemaRules(name="anthropic")
BEDROCK = SchemaRules(name="bedrock")

_SHAPE = frozenset({"type", "description", "enum", "properties", "required", "items", "anyOf"})

OPENAI_STRICT = SchemaRules(
    name="openai strict",
    keywords=_SHAPE
    | {"title", "const", "additionalProperties", "$ref", "$defs", "pattern", "format", "minItems", "maxItems"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    formats=frozenset(
        {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
    ),
    lookaround=False,
    items_needed=True,
    declared=True,
    strict=True,
)
GEMINI = SchemaRules(
    name="gemini",
    keywords=_SHAPE
    | {"title", "format", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "additionalProperties"},
    formats=frozenset({"date-time", "date", "time"}),
    enums=frozenset({"string", "integer", "number"}),
    references=False,
    items_needed=True,
    declared=True,
)
OLLAMA = SchemaRules(name="ollama", keywords=_SHAPE, references=False)
