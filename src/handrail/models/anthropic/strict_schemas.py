"""Which schemas Anthropic can hold a model to. One that it cannot is not an error: the call is checked here anyway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from handrail.core.model_request import ToolOffer
from handrail.models.projection.project import project
from handrail.models.projection.rules import SchemaRules
from handrail.models.supported_features import schema_loss_notices

_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "format", "minItems"}
    | {"title", "description", "default", "$schema"}
)
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})


class StrictSchemaBudget(Struct, frozen=True):
    """The size limits that all strict schemas of one request share."""

    tools: int = 20
    optional: int = 24
    unions: int = 16

    def after(self, schema: dict[str, Any]) -> StrictSchemaBudget | None:
        """What is left when this schema is strict too; None if it cannot be."""
        if not _taken(schema):
            return None
        optional, unions = _weight(schema)
        left = StrictSchemaBudget(self.tools - 1, self.optional - optional, self.unions - unions)
        return left if min(left.tools, left.optional, left.unions) >= 0 else None


def tools_with_strictness(
    offers: tuple[ToolOffer, ...], rules: SchemaRules, notices: list[str], *, strict: bool
) -> Iterator[tuple[ToolOffer, dict[str, Any], bool]]:
    """Each tool with its schema by these rules, and whether it can be strict. Notes in `notices` what is lost."""
    budget = StrictSchemaBudget() if strict else StrictSchemaBudget(tools=0)
    for offer in offers:
        projected = project(offer.input_schema, rules)
        notices += schema_loss_notices(offer.name, projected.lost)
        # The service holds no program's calls to their schemas.
        left = None if offer.by_program else budget.after(projected.schema)
        budget = left or budget
        yield offer, projected.schema, left is not None


def fits_strict_budget(schema: dict[str, Any]) -> bool:
    """Whether one schema by itself is small enough to be held to."""
    whole = StrictSchemaBudget()
    optional, unions = _weight(schema)
    return optional <= whole.optional and unions <= whole.unions


def _taken(schema: Any) -> bool:
    if not isinstance(schema, dict) or not schema.keys() <= _KEYWORDS:
        return False
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return False
    if schema.get("format", "date") not in _FORMATS or schema.get("minItems", 0) not in (0, 1):
        return False
    return all(map(_taken, _parts(schema)))


def _weight(schema: dict[str, Any]) -> tuple[int, int]:
    optional = len(schema.get("properties", {}).keys() - set(schema.get("required", ())))
    unions = int("anyOf" in schema or isinstance(schema.get("type"), list))
    for part in _parts(schema):
        more_optional, more_unions = _weight(part)
        optional, unions = optional + more_optional, unions + more_unions
    return optional, unions


def _parts(schema: dict[str, Any]) -> list[Any]:
    return [
        *schema.get("properties", {}).values(),
        *schema.get("$defs", {}).values(),
        *schema.get("anyOf", ()),
        *([schema["items"]] if "items" in schema else []),
    ]
