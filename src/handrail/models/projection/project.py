"""A schema as one service takes it.

What holds, and is tested: the result breaks none of the service's rules; every keyword
that went is in `lost`; what the full schema takes the result takes too, but at the
places in `narrowed`, and but for undeclared properties of objects that had to be
closed; and if nothing is lost, the result takes no more than the full schema does.
Under strict rules all this is after putting null for what is left out, and
`without_nulls` for the way back.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from handrail.models.projection.demands import SchemaDemands
from handrail.models.projection.plain_root import plain_root
from handrail.models.projection.reduce import SchemaReduction
from handrail.models.projection.rules import SchemaRules


class Projected(Struct, frozen=True):
    schema: dict[str, Any]
    lost: tuple[str, ...] = ()
    """Every keyword that was dropped or weakened, and where it stood: `#/properties/city: minLength`."""
    narrowed: tuple[str, ...] = ()
    """Where values that the full schema takes can no longer be written; likewise, but in the result."""


def project(schema: dict[str, Any], rules: SchemaRules) -> Projected:
    """The schema by the rules of a service. The given one is not changed."""
    reduction = SchemaReduction(schema, rules)
    out = schema if rules.keywords is None else reduction.at(schema, "#", inline=True)
    if reduction.defs:
        out = {**out, "$defs": reduction.defs}
    if rules.plain_root:
        out = plain_root(out, reduction.lose)
    demands = SchemaDemands(out, rules, reduction.lose)
    if rules.strict or rules.items_needed or rules.declared:
        out = demands.at(out, "#")
    return Projected(out, tuple(reduction.lost), tuple(demands.narrowed))
