"""Which keywords of JSON Schema are about which kind of value, and which of them a grammar enforces."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

_KINDS: dict[str, tuple[str, str]] = {
    # kind: what its rule enforces, what it does not
    "object": (
        "properties required additionalProperties",
        "patternProperties propertyNames minProperties maxProperties dependentRequired dependentSchemas dependencies"
        " unevaluatedProperties",
    ),
    "array": ("items prefixItems additionalItems minItems maxItems", "uniqueItems contains unevaluatedItems"),
    "string": ("minLength maxLength pattern", "format"),
    "integer": ("minimum maximum exclusiveMinimum exclusiveMaximum", "multipleOf"),
    "number": ("", "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
    "boolean": ("", ""),
    "null": ("", ""),
}
_ANNOTATIONS = """
    $schema $id $anchor $comment $defs definitions title description default examples deprecated readOnly writeOnly
    contentEncoding contentMediaType contentSchema
"""
_SIMPLE = """
    type enum const minLength maxLength pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf
    minItems maxItems uniqueItems required minProperties maxProperties
"""
_SAYS_NOTHING = (("uniqueItems", False), ("minProperties", 0))

ANNOTATIONS = frozenset(_ANNOTATIONS.split())
SIMPLE = frozenset(_SIMPLE.split())
"""Keywords that can be checked by themselves: no schemas in them."""
ENFORCED = {kind: frozenset(done.split()) for kind, (done, _) in _KINDS.items()}
_UNENFORCED = {kind: frozenset(undone.split()) for kind, (_, undone) in _KINDS.items()}
_ABOUT = {kind: ENFORCED[kind] | _UNENFORCED[kind] for kind in _KINDS}
_ABOUT_ANY = frozenset(word for words in _ABOUT.values() for word in words)


def kinds_of(schema: dict[str, Any], said: AbstractSet[str]) -> list[str]:
    """The kinds that a schema is for; without a type, those that its keywords are about."""
    if "type" not in schema:
        return [kind for kind in ("object", "array", "string", "number") if said & _ABOUT[kind]]
    kinds = schema["type"]
    return [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind in _KINDS]


def unenforced_keywords(schema: dict[str, Any], said: AbstractSet[str], kinds: list[str]) -> list[str]:
    """Keywords that say something about values of these kinds which their rules do not enforce."""
    return [
        word
        for word in sorted(said)
        if (word, schema[word]) not in _SAYS_NOTHING
        and (word not in _ABOUT_ANY or any(word in _UNENFORCED[kind] for kind in kinds))
    ]
