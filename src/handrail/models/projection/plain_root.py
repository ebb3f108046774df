"""The root of a tool's schema: services want an object there, and none of the combinations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from handrail.models.projection.merge import equal_json, intersect_schemas
from handrail.models.projection.pointers import target_of
from handrail.models.projection.rules import NOT_AT_ROOT


def plain_root(schema: dict[str, Any], lose: Callable[[str, str], None]) -> dict[str, Any]:
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
