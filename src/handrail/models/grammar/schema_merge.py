"""Two schemas that both apply, as one; whether of several at most one can apply; which keywords a grammar enforces."""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from itertools import combinations
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


Schema = dict[str, Any]
_SMALLER = frozenset(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"))
_LARGER = frozenset(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"))


def merged_schema(one: Any, other: Any) -> Any:
    """A schema that fits what fits both, or None if we cannot say it in one. Annotations may get lost."""
    if one is True or one == {}:
        return other
    if other is True or other == {}:
        return one
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    whole = dict(one)
    for keyword, value in other.items():
        if keyword not in whole:
            whole[keyword] = value
            continue
        both = _both(keyword, whole[keyword], value)
        if both is None:
            return None
        whole[keyword] = both[0]
    return None if _closes_out(one, other) or _closes_out(other, one) else whole


def at_most_one_fits(options: list[Any]) -> bool:
    """Whether no value fits two of these: by their types, or by a property that has another constant in each."""
    return all(_apart(one, other) for one, other in combinations(options, 2))


def _both(keyword: str, one: Any, other: Any) -> tuple[Any] | None:
    if one == other:
        return (one,)
    if keyword in _SMALLER or keyword in _LARGER:
        if isinstance(one, bool) or isinstance(other, bool):
            return None
        return ((min if keyword in _SMALLER else max)(one, other),)
    match keyword:
        case "type":
            return (sorted(_kinds({"type": one}) & _kinds({"type": other})),)
        case "enum":
            written = [_canonical(value) for value in other]
            return ([value for value in one if _canonical(value) in written],)
        case "required":
            return ([*one, *(name for name in other if name not in one)],)
        case "properties":
            return ({**one, **{name: _all(one.get(name, True), schema) for name, schema in other.items()}},)
        case "items" if isinstance(one, dict) and isinstance(other, dict):
            return ({"allOf": [one, other]},)
        case "title" | "description" | "default" | "examples":
            return (one,)
        case "allOf":
            return ([*one, *other],)
    return None


def _all(one: Any, other: Any) -> Any:
    return other if one is True else {"allOf": [one, other]}


def _closes_out(one: Schema, other: Schema) -> bool:
    """`additionalProperties` speaks of the properties beside it: together with others it would say something else."""
    if one.get("additionalProperties", True) is True:
        return False
    return bool((other.get("properties") or {}).keys() - (one.get("properties") or {}).keys())


def _apart(one: Any, other: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one is False or other is False
    first, second = _kinds(one), _kinds(other)
    if first and second and not first & second:
        return True
    return _constants_apart(one, other)


def _constants_apart(one: Schema, other: Schema) -> bool:
    mine, theirs = one.get("properties"), other.get("properties")
    if not isinstance(mine, dict) or not isinstance(theirs, dict) or one.get("type") != "object":
        values = _values(one), _values(other)
        return bool(values[0] and values[1] and not values[0] & values[1])
    shared = set(one.get("required") or ()) & set(other.get("required") or ())
    return any(
        _values(mine[name]) and _values(theirs[name]) and not _values(mine[name]) & _values(theirs[name])
        for name in shared & mine.keys() & theirs.keys()
    )


def _values(schema: Any) -> frozenset[str]:
    match schema:
        case {"const": value}:
            return frozenset((_canonical(value),))
        case {"enum": list(values)}:
            return frozenset(map(_canonical, values))
    return frozenset()


def _kinds(schema: Schema) -> frozenset[str]:
    kinds = set(_listed(schema.get("type", [])))
    return frozenset(kinds | ({"integer"} if "number" in kinds else set()))


def _listed(kinds: Any) -> list[str]:
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _canonical(value: Any) -> str:
    """1 and 1.0 are the same number in JSON Schema, and True is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)
