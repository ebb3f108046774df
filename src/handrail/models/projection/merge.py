"""Two schemas in one that means exactly both of them, where there is such a one without `allOf`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})

_TOGETHER = (
    # Keywords that look at each other: two sets of them cannot be mixed.
    frozenset({"properties", "additionalProperties", "patternProperties"}),
    frozenset({"items", "prefixItems", "additionalItems"}),
    frozenset({"contains", "minContains", "maxContains"}),
    frozenset({"if", "then", "else"}),
)
_LOOKS_AROUND = frozenset({"unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef", "$ref"})


def intersect_schemas(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any] | None:
    """A schema that takes what both take; None if only `allOf` can say so. Annotations of the first win."""
    if not one or not two:
        return {**one, **two}
    if _LOOKS_AROUND & two.keys() or "$ref" in one or not all(_mixes(one, two, group) for group in _TOGETHER):
        return None
    out = dict(one)
    for key, value in two.items():
        if key not in out or equal_json(out[key], value):
            out[key] = value
        elif key not in ANNOTATIONS:
            joined = _JOINS[key](out[key], value) if key in _JOINS else None
            if joined is None:
                return None
            out[key] = joined
    return out


def equal_json(one: Any, two: Any) -> bool:
    """Equal as JSON values: unlike in Python, 1 is not true."""
    return one is two or (one == two and json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True))


def types_of(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _mixes(one: dict[str, Any], two: dict[str, Any], group: frozenset[str]) -> bool:
    mine, theirs = group & one.keys(), group & two.keys()
    if not mine or not theirs or mine == theirs == {"properties"} or mine == theirs == {"items"}:
        return True
    return mine == theirs and all(equal_json(one[key], two[key]) for key in mine)


def _types(one: Any, two: Any) -> Any:
    first, second = set(types_of(one)), set(types_of(two))
    both = {kind for kind in first | second if _takes(first, kind) and _takes(second, kind)}
    kinds = [kind for kind in (*types_of(one), *types_of(two)) if kind in both]
    distinct = list(dict.fromkeys(kinds))
    return None if not distinct else distinct[0] if len(distinct) == 1 else distinct


def _takes(kinds: set[str], kind: str) -> bool:
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _enums(one: Any, two: Any) -> Any:
    return [value for value in one if any(equal_json(value, other) for other in two)] or None


def _properties(one: dict[str, Any], two: dict[str, Any]) -> Any:
    out = dict(one)
    for name, schema in two.items():
        joined = _subschemas(out[name], schema) if name in out else schema
        if joined is None:
            return None
        out[name] = joined
    return out


def _subschemas(one: Any, two: Any) -> Any:
    return intersect_schemas(one, two) if isinstance(one, dict) and isinstance(two, dict) else None


def _required(one: list[str], two: list[str]) -> list[str]:
    return list(dict.fromkeys([*one, *two]))


_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _enums,
    "required": _required,
    "properties": _properties,
    "items": _subschemas,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minItems", "minLength", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxItems", "maxLength", "maxProperties"), min),
}
