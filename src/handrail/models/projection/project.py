"""A schema as one service takes it.

What holds, and is tested: the result breaks none of the service's rules; every keyword
that went is in `lost`; what the full schema takes the result takes too, but at the
places in `narrowed`, and but for undeclared properties of objects that had to be
closed; and if nothing is lost, the result takes no more than the full schema does.
Under strict rules all this is after putting null for what is left out, and
`without_nulls` for the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from handrail.models.projection.demands import SchemaDemands
from handrail.models.projection.merge import equal_json, intersect_schemas
from handrail.models.projection.reduce import SchemaReduction
from handrail.models.projection.rules import NOT_AT_ROOT, SchemaRules
from handrail.tools.schema.pointers import target_of


class Projected(Struct, frozen=True):
    schema: dict[str, Any]
    lost: tuple[str, ...] = ()
    """Every keyword that was dropped or weakened, with its place: `#/properties/city: minLength`."""
    narrowed: tuple[str, ...] = ()
    """Where values that the full schema takes can no longer be written; likewise, but in the result."""


def project(schema: dict[str, Any], rules: SchemaRules) -> Projected:
    """The schema by the rules of a service. The given one is not changed."""
    reduction = SchemaReduction(schema, rules)
    out = schema if rules.keywords is None else reduction.at(schema, "#", inline=True)
    if reduction.defs:
        out = {**out, "$defs": reduction.defs}
    if rules.plain_root:
        out = _plain_root(out, reduction.lose)
    demands = SchemaDemands(out, rules, reduction.lose)
    if rules.strict or rules.items_needed or rules.declared:
        out = demands.at(out, "#")
    return Projected(out, tuple(reduction.lost), tuple(demands.narrowed))


def _plain_root(schema: dict[str, Any], lose: Callable[[str, str], None]) -> dict[str, Any]:
    """The schema as an object without combinations. What several branches offer is offered together.

    Arguments are always an object, so the type that is added here refuses nothing.
    """
    out = _resolved(schema, schema, lose)
    for branch in out.get("allOf", ()) if isinstance(out.get("allOf"), list) else ():
        both = intersect_schemas(
            {key: value for key, value in out.items() if key != "allOf"}, _resolved(branch, schema, lose)
        )
        if both is None:
            lose("#", "allOf")
        else:
            out = {**both, "allOf": out["allOf"]}
    for key in ("anyOf", "oneOf"):
        if key in out:
            out = _offered_together(out, [_resolved(branch, schema, lose) for branch in out[key]])
    # Without its branches it would refuse what they had evaluated.
    gone = [key for key in out if key in NOT_AT_ROOT or (key == "unevaluatedProperties" and NOT_AT_ROOT & out.keys())]
    for key in gone:
        if key != "allOf":
            lose("#", key)
    return {**{key: value for key, value in out.items() if key not in gone}, "type": "object"}


def _resolved(schema: Any, root: dict[str, Any], lose: Callable[[str, str], None]) -> dict[str, Any]:
    """What a reference names, with what stands beside it."""
    out: dict[str, Any] = schema if isinstance(schema, dict) else {}
    seen: set[str] = set()
    while "$ref" in out:
        found = target_of(root, out["$ref"])
        beside = {key: value for key, value in out.items() if key != "$ref"}
        together = None
        if found is not None and found[0] not in seen and found[0] != "#" and isinstance(found[1], dict):
            seen.add(found[0])
            together = intersect_schemas(beside, found[1])
        if together is None:
            lose("#", "$ref")
        out = beside if together is None else together
    return out


def _offered_together(schema: dict[str, Any], branches: list[dict[str, Any]]) -> dict[str, Any]:
    """The properties of all branches as one set; one that a branch leaves open may be anything."""
    offered: dict[str, Any] = {}
    for name in dict.fromkeys(name for branch in branches for name in branch.get("properties", {})):
        kinds: list[Any] = []
        for branch in branches:
            others = {} if "patternProperties" in branch else branch.get("additionalProperties", {})
            sub = branch.get("properties", {}).get(name, others)
            if sub is not False and not any(equal_json(sub, kind) for kind in kinds):
                kinds.append(sub)
        anything = any(kind is True or kind == {} for kind in kinds)
        if kinds:
            offered[name] = {} if anything else kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    declared = {**offered, **schema.get("properties", {})}
    always = [name for name in declared if all(name in branch.get("required", ()) for branch in branches)]
    added = {"properties": offered, "required": always} if offered else {"required": always} if always else {}
    if "additionalProperties" in schema or "patternProperties" in schema:
        added.pop("properties", None)
    together = intersect_schemas(schema, added)
    return schema if together is None else together
