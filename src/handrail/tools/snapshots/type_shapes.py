"""JSON Schemas as the few shapes that the type systems of three languages share.

What a schema says beyond that is not lost: it stands in the data that is written
beside the types, and is enforced where the tool runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Kind = Literal["string", "integer", "number", "boolean", "null"]
_KINDS = ("string", "integer", "number", "boolean", "null")
_BEYOND = ("$ref", "$dynamicRef", "allOf", "not", "if")
"""Words that say more of a value than its shape; where they stand, anything goes."""


@dataclass(frozen=True, slots=True)
class ScalarShape:
    kind: Kind


@dataclass(frozen=True, slots=True)
class LiteralShape:
    values: tuple[Any, ...]
    """Strings, integers, booleans and null."""


@dataclass(frozen=True, slots=True)
class ListShape:
    item: Shape


@dataclass(frozen=True, slots=True)
class UnionShape:
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class ObjectShape:
    fields: Fields


@dataclass(frozen=True, slots=True)
class MappingShape:
    """An object with keys that nobody knows beforehand."""


@dataclass(frozen=True, slots=True)
class AnyShape:
    """A shape of which a type could say nothing."""


class ShapeField(NamedTuple):
    shape: Shape
    needed: bool
    description: str


Fields = dict[str, ShapeField]
Shape = ScalarShape | LiteralShape | ListShape | UnionShape | ObjectShape | MappingShape | AnyShape
ANYTHING = AnyShape()


def shape_of(schema: Any) -> Shape:
    if not isinstance(schema, dict) or any(word in schema for word in _BEYOND):
        return ANYTHING
    match schema:
        case {"const": value}:
            return _literals([value])
        case {"enum": list(values)}:
            return _literals(values)
        case {"anyOf": list(members)} | {"oneOf": list(members)}:
            # What stands beside a choice narrows it, which no type here can say.
            return ANYTHING if "properties" in schema else _one_of([shape_of(member) for member in members])
        case {"type": list(kinds)}:
            return _one_of([_of_kind(kind, schema) for kind in kinds])
        case {"type": str(kind)}:
            return _of_kind(kind, schema)
        case {"properties": dict()}:
            return _record(schema)
    return ANYTHING


def _of_kind(kind: str, schema: Mapping[str, Any]) -> Shape:
    match kind:
        case "array":
            return ListShape(ANYTHING if "prefixItems" in schema else shape_of(schema.get("items")))
        case "object":
            # An object that takes nothing is a record without fields.
            known = schema.get("properties") or schema.get("required") or schema.get("additionalProperties") is False
            return _record(schema) if known else MappingShape()
    return ScalarShape(kind) if kind in _KINDS else ANYTHING  # type: ignore[arg-type]  # just looked up


def _record(schema: Mapping[str, Any]) -> Shape:
    properties = schema.get("properties", {})
    required = set(schema.get("required", ()))
    return ObjectShape(
        {name: _field(properties.get(name), name in required) for name in sorted({*properties, *required})}
    )


def _field(schema: Any, needed: bool) -> ShapeField:
    about = schema.get("description") if isinstance(schema, dict) else None
    return ShapeField(shape_of(schema), needed, about if isinstance(about, str) else "")


def _literals(values: list[Any]) -> Shape:
    if not values or not all(isinstance(value, str | bool | int | None) for value in values):
        return ANYTHING
    # By type too: to Python, 1 and True are equal.
    return LiteralShape(tuple({(type(value), value): value for value in values}.values()))


def _one_of(shapes: list[Shape]) -> Shape:
    if not shapes or ANYTHING in shapes:
        return ANYTHING
    return shapes[0] if len(shapes) == 1 else UnionShape(tuple(shapes))
