"""Nulls that stand for "left out": where every property is required, an optional one is null instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from handrail.tools.schema.pointers import target_of


def without_nulls(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The arguments without the nulls that the full schema neither asks for nor takes.

    Such a null is what the strict projection makes of a property that is left out.
    """
    cleaned: dict[str, Any] = _cleaned(arguments, [schema], schema)
    return cleaned


def allows_null(schema: Any, root: dict[str, Any], seen: frozenset[str] = frozenset()) -> bool:
    """Whether null may pass: False only if it certainly does not."""
    if not isinstance(schema, dict):
        return schema is not False
    if "type" in schema and "null" not in ([schema["type"]] if isinstance(schema["type"], str) else schema["type"]):
        return False
    if schema.get("const") is not None or None not in schema.get("enum", (None,)):
        return False
    for key in ("anyOf", "oneOf"):
        if key in schema and not any(allows_null(sub, root, seen) for sub in schema[key]):
            return False
    if not all(allows_null(sub, root, seen) for sub in schema.get("allOf", ())):
        return False
    found = target_of(root, schema["$ref"]) if "$ref" in schema else None
    return found is None or found[0] in seen or allows_null(found[1], root, seen | {found[0]})


def _cleaned(value: Any, schemas: list[Any], root: dict[str, Any]) -> Any:
    """A value without such nulls, seen by every schema that may apply to it."""
    if not isinstance(value, (dict, list)):
        return value
    applied = list(_applied(schemas, root, set()))
    if isinstance(value, list):
        return [_cleaned(item, list(_for_item(applied, place)), root) for place, item in enumerate(value)]
    asked = {name for schema in applied for name in schema.get("required", ())}
    out = {}
    for name, item in value.items():
        subs = list(_for_field(applied, name))
        if item is None and subs and name not in asked and not any(allows_null(sub, root) for sub in subs):
            continue
        out[name] = _cleaned(item, subs, root)
    return out


def _applied(schemas: list[Any], root: dict[str, Any], seen: set[int]) -> Iterator[dict[str, Any]]:
    """The schemas and those that apply in the same place, one way or another."""
    for schema in schemas:
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        for key in ("allOf", "anyOf", "oneOf"):
            yield from _applied(schema.get(key, []), root, seen)
        found = target_of(root, schema["$ref"]) if "$ref" in schema else None
        if found is not None:
            yield from _applied([found[1]], root, seen)


def _for_field(applied: list[dict[str, Any]], name: str) -> Iterator[Any]:
    for schema in applied:
        if name in schema.get("properties", {}):
            yield schema["properties"][name]
        elif isinstance(schema.get("additionalProperties"), dict):
            yield schema["additionalProperties"]


def _for_item(applied: list[dict[str, Any]], place: int) -> Iterator[Any]:
    for schema in applied:
        first = schema.get("prefixItems", [])
        items = schema.get("items", {})
        if isinstance(items, list):
            first, items = items, schema.get("additionalItems", {})
        yield first[place] if place < len(first) else items
