"""A schema with only the keywords that a service takes.

Leaving a keyword out lets more values through, never fewer; where leaving out one
would make another refuse more (`additionalProperties` beside `patternProperties`,
`items` beside `prefixItems`), both go. What can be said in other words is:
`const` as `enum`, `allOf` as one schema, a `$ref` by what it names.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from handrail.core.jsontext import kind_of
from handrail.models.projection.merge import ANNOTATIONS, intersect_schemas
from handrail.models.projection.rules import LIMITS, LOOKAROUND, SILENT, SchemaRules
from handrail.tools.schema.pointers import has_inner_ids, pointer_below, target_of

_MAX_INLINED = 2000
"""Subschemas put in the place of references. Beyond that, what a reference names is lost."""
_OLD_DIALECT = re.compile(r"draft-0[3-7]/")


class SchemaReduction:
    """One schema on its way to one service. `lost` fills as keywords go."""

    def __init__(self, root: dict[str, Any], rules: SchemaRules) -> None:
        self.lost: dict[str, None] = {}
        self.defs: dict[str, Any] = {}
        self._root = root
        self._rules = rules
        self._takes = rules.keywords or frozenset()
        self._old = bool(_OLD_DIALECT.search(str(root.get("$schema", ""))))
        self._lost_bearings = has_inner_ids(root)
        self._names: dict[str, str] = {}
        self._inlining: list[str] = []
        self._inlined = 0

    def lose(self, pointer: str, keyword: str) -> None:
        self.lost[f"{pointer}: {keyword}"] = None

    def at(self, schema: Any, pointer: str, *, inline: bool = False) -> dict[str, Any]:
        """Reduces one subschema. With `inline` the result is never a bare `$ref`, unless it leads back into itself."""
        if not isinstance(schema, dict):
            if schema is not True:
                self.lose(pointer, "false")
            return {}
        self._inlined += bool(self._inlining)
        out = self._own(schema, pointer)
        if "$ref" in schema:
            out = self._with_reference(out, schema["$ref"], pointer, inline)
        branches = () if self._old and "$ref" in schema else schema.get("allOf", ())
        for place, branch in enumerate(branches):
            inline = inline or bool(out) or len(branches) > 1
            both = intersect_schemas(out, self.at(branch, pointer_below(pointer, "allOf", place), inline=inline))
            if both is None:
                self.lose(pointer, "allOf")
            out = out if both is None else both
        return out

    def _own(self, schema: dict[str, Any], pointer: str) -> dict[str, Any]:
        """What stands in a subschema itself, references and `allOf` aside."""
        out: dict[str, Any] = {}
        limits: dict[str, Any] = {}
        hidden = self._old and "$ref" in schema  # up to Draft 7, a reference hides what is beside it
        for key, value in schema.items():
            if key in SILENT or key in ("$ref", "allOf") or (hidden and key not in ANNOTATIONS):
                continue
            said = self._keyword(key, value, schema, pointer)
            if key == "default" and said is None:
                continue
            if said is None or not _join(out, said):
                self.lose(pointer, key)
                limits |= {key: value} if key in LIMITS else {}
        if self._rules.tells_limits and limits:
            _tell(out, "Limits:", limits)
        if "default" in schema and "default" not in out and not hidden:
            _tell(out, "Default:", schema["default"])
        return out

    def _keyword(self, key: str, value: Any, schema: dict[str, Any], pointer: str) -> dict[str, Any] | None:
        """Writes one keyword in words that the service takes; None if there are none."""
        here = pointer_below(pointer, key)
        match key:
            case "const" if key not in self._takes:
                return self._enum(key, [value], schema, pointer)
            case "enum":
                return self._enum(key, value, schema, pointer)
            case "oneOf":
                self.lose(pointer, key)  # that only one may fit
                return self._branches(value, here)
            case "anyOf" if key in self._takes:
                return self._branches(value, here)
            case "properties":
                return {key: {name: self.at(sub, pointer_below(here, name)) for name, sub in value.items()}}
            case "items" | "prefixItems" | "additionalItems":
                return self._items(key, value, schema, here)
            case "additionalProperties":
                return self._additional(value, schema, here)
        return {key: value} if key in self._takes and self._fits(key, value) else None

    def _branches(self, schemas: list[Any], pointer: str) -> dict[str, Any]:
        return {"anyOf": [self.at(sub, pointer_below(pointer, place)) for place, sub in enumerate(schemas)]}

    def _items(self, key: str, value: Any, schema: dict[str, Any], pointer: str) -> dict[str, Any] | None:
        first = "prefixItems" if "prefixItems" in schema else "items" if isinstance(schema.get("items"), list) else ""
        if first and "prefixItems" not in self._takes:
            return None
        if key == first:
            return {"prefixItems": [self.at(sub, pointer_below(pointer, place)) for place, sub in enumerate(value)]}
        if key == "additionalItems" and first != "items":
            return {}  # it applies only beside a list of items
        return {"items": self.at(value, pointer)}

    def _additional(self, value: Any, schema: dict[str, Any], pointer: str) -> dict[str, Any] | None:
        if value is True:
            return {"additionalProperties": True} if self._rules.strict else {}
        if "additionalProperties" not in self._takes:
            return None
        if schema.get("patternProperties"):
            return {"additionalProperties": True} if self._rules.strict else None
        return {"additionalProperties": value if value is False else self.at(value, pointer)}

    def _enum(self, key: str, values: list[Any], schema: dict[str, Any], pointer: str) -> dict[str, Any]:
        allowed = self._rules.enums
        kinds = list(dict.fromkeys(kind_of(value) for value in values))
        if allowed is None or allowed.issuperset(kinds):
            return {"enum": values}
        if not allowed.issuperset({*kinds} - {"null"}):
            self.lose(pointer, key)
            return {} if "type" in schema else {"type": kinds[0] if len(kinds) == 1 else kinds}
        plain = [value for value in values if value is not None]
        return {"anyOf": [{"enum": plain}, {"type": "null"}]} if plain else {"type": "null"}

    def _fits(self, key: str, value: Any) -> bool:
        match key:
            case "format":
                return self._rules.formats is None or value in self._rules.formats
            case "pattern":
                return self._rules.lookaround or LOOKAROUND.search(value) is None
            case "minItems":
                return not self._rules.few_items or value in (0, 1)
            case "exclusiveMinimum" | "exclusiveMaximum":
                return not isinstance(value, bool)  # as Draft 4 has it
        return True

    def _with_reference(self, own: dict[str, Any], reference: Any, pointer: str, inline: bool) -> dict[str, Any]:
        named = self._named(reference, pointer, inline=inline or bool(own))
        both = intersect_schemas(own, named)
        if both is not None:
            return both
        for key in own:
            self.lose(pointer, key)
        return named

    def _named(self, reference: Any, pointer: str, *, inline: bool) -> dict[str, Any]:
        found = None if self._lost_bearings else target_of(self._root, reference)
        if found is None:
            self.lose(pointer, "$ref")
            return {}
        where, target = found
        again = where in self._inlining or (where == "#" and self._rules.references)
        if self._rules.references and (not inline or again):
            return {"$ref": self._definition(where, target)}
        if again or where == "#" or self._inlined > _MAX_INLINED:
            self.lose(pointer, "$ref")
            return {}
        self._inlining.append(where)
        out = self.at(target, where, inline=inline)
        self._inlining.pop()
        return out

    def _definition(self, where: str, target: Any) -> str:
        """The reference to a definition of the result, which is made when it is first asked for."""
        if where == "#":
            return "#"
        if where not in self._names:
            plain = re.sub(r"[^A-Za-z0-9_-]", "_", where.rpartition("/")[2]) or "part"
            name, count = plain, 1
            while name in self.defs:
                count += 1
                name = f"{plain}_{count}"
            self._names[where] = name
            self.defs[name] = {}
            self.defs[name] = self.at(target, where)
        return f"#/$defs/{self._names[where]}"


def _tell(out: dict[str, Any], what: str, value: Any) -> None:
    """Say in words what the service has no keyword for. A default binds nobody; limits are checked here."""
    words = f"{what} {msgspec.json.encode(value).decode()}."
    out["description"] = f"{out['description']} {words}" if out.get("description") else words


def _join(out: dict[str, Any], said: dict[str, Any]) -> bool:
    """Add a keyword's words to those of the keywords beside it; False if they cannot both stand."""
    joined = {}
    for key, value in said.items():
        both = intersect_schemas({key: out[key]}, {key: value}) if key in out else said
        if both is None:
            return False
        joined[key] = both[key]
    out.update(joined)
    return True
