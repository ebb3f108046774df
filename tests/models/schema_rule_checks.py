"""Whether a schema keeps to a service's rules. It shares the rules with the projection, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from handrail.core.jsontext import kind_of
from handrail.models.projection.rules import LOOKAROUND, NOT_AT_ROOT, SchemaRules

_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_ONE = ("items", "additionalProperties")


def violations(schema: dict[str, Any], rules: SchemaRules) -> list[str]:
    """Each rule that is broken, and where; an empty list is a schema that the service takes."""
    found = [f"{where}: {what}" for where, sub in _every(schema, "#") for what in _broken(sub, schema, rules)]
    if rules.plain_root:
        found += [f"#: {key} at the root" for key in schema if key in NOT_AT_ROOT | {"$ref"}]
        found += [] if schema.get("type") == "object" else ["#: the root is not an object"]
    return found


def _every(schema: Any, where: str) -> Iterator[tuple[str, Any]]:
    yield where, schema
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        if key in _MAPS:
            for name, sub in value.items():
                yield from _every(sub, f"{where}/{key}/{name}")
        elif key in _LISTS or (key in _ONE and isinstance(value, list)):
            for place, sub in enumerate(value):
                yield from _every(sub, f"{where}/{key}/{place}")
        elif key in _ONE and not isinstance(value, bool):
            yield from _every(value, f"{where}/{key}")


def _broken(schema: Any, root: dict[str, Any], rules: SchemaRules) -> Iterator[str]:
    if not isinstance(schema, dict):
        if rules.keywords is not None:
            yield f"{schema!r} is not an object"
        return
    if rules.keywords is not None:
        yield from (f"{key} is not taken" for key in schema if key not in rules.keywords)
        yield from _broken_reference(schema, root)
    if rules.formats is not None and schema.get("format", "date") not in rules.formats:
        yield f"format {schema['format']!r} is not taken"
    if rules.enums is not None:
        yield from (f"{value!r} in an enum" for value in schema.get("enum", ()) if kind_of(value) not in rules.enums)
    if not rules.lookaround and LOOKAROUND.search(schema.get("pattern", "")):
        yield "the pattern looks around"
    kinds = schema.get("type", [])
    if rules.items_needed and "array" in kinds and "items" not in schema:
        yield "an array without items"
    if rules.declared and not {*schema.get("required", ())} <= {*schema.get("properties", {})}:
        yield "a required property is not declared"
    if rules.strict:
        yield from _not_strict(schema, kinds, optional=rules.optional)
    if rules.few_items and schema.get("minItems", 0) not in (0, 1):
        yield "more than one item is required"


def _broken_reference(schema: dict[str, Any], root: dict[str, Any]) -> Iterator[str]:
    if "$ref" not in schema:
        return
    if len(schema) > 1:
        yield "something stands beside $ref"
    name = schema["$ref"].removeprefix("#/$defs/")
    if schema["$ref"] != "#" and name not in root.get("$defs", {}):
        yield f"{schema['$ref']} names nothing"


def _not_strict(schema: dict[str, Any], kinds: str | list[str], *, optional: bool) -> Iterator[str]:
    if not {"type", "anyOf", "$ref"} & schema.keys():
        yield "no type"
    if "anyOf" in schema and "type" in schema:
        yield "a type beside anyOf"
    if "object" in kinds and schema.get("additionalProperties") is not False:
        yield "an open object"
    if not optional and "object" in kinds and schema.get("required") != list(schema.get("properties", {})):
        yield "a property that is not required"
