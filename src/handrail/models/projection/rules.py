"""What each service takes of JSON Schema, as data."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

SILENT = frozenset({"$schema", "$id", "$anchor", "$comment", "$vocabulary", "$defs", "definitions", "id"})
"""Bookkeeping. It says nothing about a value, so leaving it out loses nothing."""
LIMITS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern"}
    | {"minItems", "maxItems", "uniqueItems", "format"}
)
"""What a model can keep to if it is told in words, and what is checked here in any case."""
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
    optional: bool = False
    """Under strict rules: a property may be left out all the same, and none is null instead."""
    few_items: bool = False
    """`minItems` is 0 or 1."""
    tells_limits: bool = False
    """Limits of a single value that are not taken are told in the description. They count as lost."""


FULL = SchemaRules(name="full", plain_root=False)
OPENAI = SchemaRules(name="openai", items_needed=True)
ANTHROPIC = SchemaRules(name="anthropic")
BEDROCK = SchemaRules(name="bedrock")

_SHAPE = frozenset({"type", "description", "enum", "properties", "required", "items", "anyOf"})

_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})

OPENAI_STRICT = SchemaRules(
    name="openai strict",
    keywords=_SHAPE
    | {"title", "const", "additionalProperties", "$ref", "$defs", "pattern", "format", "minItems", "maxItems"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    formats=_FORMATS,
    lookaround=False,
    items_needed=True,
    declared=True,
    strict=True,
)
OPENAI_REPLY = replace(OPENAI_STRICT, name="openai reply", tells_limits=True)
ANTHROPIC_REPLY = SchemaRules(
    name="anthropic reply",
    keywords=_SHAPE | {"title", "const", "additionalProperties", "$ref", "$defs", "format", "minItems"},
    formats=_FORMATS | {"uri"},
    items_needed=True,
    declared=True,
    strict=True,
    optional=True,
    few_items=True,
    tells_limits=True,
)
"""What it can hold a reply to. It refuses a request with anything else."""
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
GEMINI_REPLY = replace(
    GEMINI,
    name="gemini reply",
    keywords=(GEMINI.keywords or _SHAPE) | {"$ref", "$defs"},
    references=True,
    tells_limits=True,
)
OLLAMA = SchemaRules(name="ollama", keywords=_SHAPE, references=False)
