"""Limits as JSON Schema keywords, and adding keywords without losing any."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from handrail.core.errors import InvalidDefinition
from handrail.tools.types.scalars import SCALARS
from handrail.tools.types.type_limits import TypeLimit
from handrail.tools.types.type_nodes import (
    AnyNode,
    ArrayNode,
    MappingNode,
    ModelNode,
    Node,
    RecordNode,
    ScalarNode,
    TupleNode,
    leaf_nodes,
)

_KEYWORDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_INFORMS = {"description", "title", "default", "examples", "deprecated", "readOnly", "writeOnly"}


def add_keywords(schema: dict[str, Any], extra: Mapping[str, Any]) -> None:
    """Add keywords to a schema, in place. A limit never replaces one that is there: then both hold."""
    clashing = {}
    for key, value in extra.items():
        if key in _INFORMS or schema.get(key, value) == value:
            schema[key] = value
        else:
            clashing[key] = value
    if clashing:
        schema["allOf"] = [*schema.get("allOf", ()), clashing]


def limit_keywords(base: Node, limits: tuple[TypeLimit, ...]) -> dict[str, Any]:
    """The limits that JSON Schema can express for this type; the others are checked on the converted value."""
    keywords: dict[str, Any] = {}
    for limit in limits:
        match limit.name, limit.value:
            case "func", _:
                continue
            case (("min_length" | "max_length"), length):
                add_keywords(keywords, {limit.name[:3] + sized: length for sized in _sized(base)})
            case "pattern", pattern:
                add_keywords(keywords, {"pattern": pattern})
            case name, int() | float() | Decimal() as bound:
                number = float(bound) if isinstance(bound, Decimal) else bound
                add_keywords(keywords, {_KEYWORDS[name]: number})
    return keywords


def _sized(base: Node) -> list[str]:
    """The endings of the keywords that limit the size of such values."""
    found: dict[str, None] = {}
    measurable = False
    for leaf in leaf_nodes(base):
        match leaf:
            case ScalarNode(kind):
                measurable |= kind is bytes
                if SCALARS[kind].schema.get("type") == "string" and kind is not bytes:
                    found["Length"] = None
            case ArrayNode() | TupleNode():
                found["Items"] = None
            case MappingNode() | RecordNode() | ModelNode():
                found["Properties"] = None
            case AnyNode():
                found |= dict.fromkeys(("Length", "Items", "Properties"))
    if not found and not measurable:
        raise InvalidDefinition(f"a limit of length does not fit {base}; use it with text, lists, sets or dicts")
    return list(found)
