"""A schema with everything that a service insists on: closed objects, types, items, a plain root.

What is added may refuse values that the full schema takes; each such place is noted
in `narrowed`, so that a caller can do without the strict form there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from handrail.core.jsontext import kind_of
from handrail.models.projection.merge import ANNOTATIONS, intersect_schemas, types_of
from handrail.models.projection.rules import SchemaRules
from handrail.tools.schema.left_out_nulls import allows_null
from handrail.tools.schema.pointers import pointer_below

_ANY = ["string", "number", "boolean", "null"]
_HINTS = {
    # a keyword     the type that it is about
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
    "items": "array",
    "minItems": "array",
    "maxItems": "array",
    "pattern": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "multipleOf": "number",
}
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_ONE = ("items", "additionalProperties")

Lose = Callable[[str, str], None]


class SchemaDemands:
    def __init__(self, root: dict[str, Any], rules: SchemaRules, lose: Lose) -> None:
        self.narrowed: dict[str, None] = {}
        self._root = root
        self._rules = rules
        self._lose = lose

    def at(self, schema: Any, pointer: str) -> Any:
        if not isinstance(schema, dict) or schema.keys() == {"$ref"}:
            return schema
        out = dict(schema)
        if self._rules.strict:
            out = self._typed(self._spread(out, pointer), pointer)
        if self._rules.declared and "required" in out:
            out = self._declared(out, pointer)
        if self._rules.items_needed and "array" in types_of(out.get("type", ())) and "items" not in out:
            out["items"] = {}
        out = self._parts(out, pointer)
        return self._closed(out, pointer) if self._rules.strict and "object" in types_of(out.get("type", ())) else out

    def _parts(self, schema: dict[str, Any], pointer: str) -> dict[str, Any]:
        out = dict(schema)
        for key, value in schema.items():
            here = pointer_below(pointer, key)
            if isinstance(value, list) and key in (*_LISTS, *_ONE):
                out[key] = [self.at(sub, pointer_below(here, place)) for place, sub in enumerate(value)]
            elif key in _MAPS and isinstance(value, dict):
                out[key] = {name: self.at(sub, pointer_below(here, name)) for name, sub in value.items()}
            elif key in _ONE:
                out[key] = self.at(value, here)
        return out

    def _spread(self, schema: dict[str, Any], pointer: str) -> dict[str, Any]:
        """Limits beside `anyOf` put into each of its branches: each must stand alone."""
        limits = {key: value for key, value in schema.items() if key not in ANNOTATIONS and key != "anyOf"}
        if "anyOf" not in schema or not limits:
            return schema
        branches = [intersect_schemas(branch, limits) for branch in schema["anyOf"]]
        notes = {key: value for key, value in schema.items() if key in ANNOTATIONS}
        if None not in branches:
            return {**notes, "anyOf": branches}
        # A type says less than the branches do, anything else more.
        weaker = ["type"] if limits.keys() == {"type"} else ["anyOf"]
        for key in weaker:
            self._lose(pointer, key)
        return {key: value for key, value in schema.items() if key not in weaker}

    def _typed(self, schema: dict[str, Any], pointer: str) -> dict[str, Any]:
        if "type" in schema or "anyOf" in schema:
            return schema
        if "enum" in schema:
            kinds = list(dict.fromkeys(kind_of(value) for value in schema["enum"]))
            return {"type": kinds[0] if len(kinds) == 1 else kinds, **schema}
        if "const" in schema:
            return {"type": kind_of(schema["const"]), **schema}
        self.narrowed[f"{pointer}: type"] = None
        return {"type": next((kind for key, kind in _HINTS.items() if key in schema), _ANY), **schema}

    def _declared(self, schema: dict[str, Any], pointer: str) -> dict[str, Any]:
        known = [name for name in schema["required"] if name in schema.get("properties", {})]
        if len(known) < len(schema["required"]):
            self._lose(pointer, "required")
        return {**schema, "required": known}

    def _closed(self, schema: dict[str, Any], pointer: str) -> dict[str, Any]:
        properties: dict[str, Any] = schema.get("properties", {})
        more = schema.get("additionalProperties", bool(not properties))
        if more is not False:
            self.narrowed[f"{pointer}: additionalProperties"] = None
            if "additionalProperties" in schema:
                self._lose(pointer, "additionalProperties")
        if self._rules.optional:
            return {**schema, "additionalProperties": False}
        required = schema.get("required", ())
        filled = {name: sub if name in required else self._nullable(sub) for name, sub in properties.items()}
        return {**schema, "properties": filled, "required": list(filled), "additionalProperties": False}

    def _nullable(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The same, but null will do too."""
        if allows_null(schema, self._root):
            return schema
        if "anyOf" in schema:
            return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
        kinds = types_of(schema.get("type", ()))
        if not kinds or {"object", "array"} & {*kinds} or "const" in schema:
            notes = {key: value for key, value in schema.items() if key in ANNOTATIONS}
            bare = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
            return {**notes, "anyOf": [bare, {"type": "null"}]}
        values = {"enum": [*schema["enum"], *([] if None in schema["enum"] else [None])]} if "enum" in schema else {}
        return {**schema, "type": [*(kind for kind in kinds if kind != "null"), "null"], **values}
