"""JSON Schema to a grammar: what the grammar accepts is JSON that fits the schema.

It may accept less: properties come in the order of the schema and undeclared ones not
at all. Where it must accept more, the keyword is in `lost`; arguments are checked
against the whole schema all the same. A map's keys may repeat: no grammar counts them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from handrail.core.errors import InvalidSchema
from handrail.models.grammar.grammar_rules import (
    EMPTY,
    NATURAL,
    POSITIVE,
    SHARED,
    AlternativesRule,
    Grammar,
    LiteralRule,
    Node,
    RepeatRule,
    RuleReference,
    SequenceRule,
    alt,
    optional,
    seq,
    without_endless_rules,
)
from handrail.models.grammar.regex_grammar import UnsupportedPattern, pattern_node
from handrail.models.grammar.schema_merge import (
    ANNOTATIONS,
    ENFORCED,
    SIMPLE,
    at_most_one_fits,
    kinds_of,
    merged_schema,
    unenforced_keywords,
)
from handrail.tools.schema.validator import Validator

Schema = dict[str, Any]

_LONGEST_CHAIN = 32
_MOST = 256
"""Counts beyond this are not unfolded into a grammar."""
_BUDGET = 5_000
"""The most subschemas of a grammar, with references unfolded where they must be."""


class GrammarBuilder:
    """Collects the rules of one grammar, of one schema or more."""

    def __init__(self) -> None:
        self._rules: dict[str, Node] = {}
        self._lost: dict[str, None] = {}
        self._left = _BUDGET

    def add(self, schema: Schema | bool, where: str, path: str = "") -> Node:
        """What fits a whole schema. `path` goes before the paths in `lost`."""
        self._root = schema
        self._where = where
        self._named: dict[str, Node | None] = {}
        self._open: frozenset[str] = frozenset()
        """References being followed for which nothing was read yet: to follow one again would never end."""
        try:
            node = self._node(schema, path)
        except RecursionError:
            raise InvalidSchema(where, "it is nested too deeply, or refers to itself in place") from None
        if node is None:
            raise InvalidSchema(where, "no value fits it")
        return node

    def grammar(self, root: Node) -> Grammar:
        rules: dict[str, Node] = {"root": root, **self._rules}
        wanted = list(rule_references(SequenceRule(tuple(rules.values()))))
        while wanted:
            name = wanted.pop()
            if name not in rules:
                rules[name] = SHARED[name]
                wanted.extend(rule_references(rules[name]))
        rules = without_endless_rules(rules)
        if "root" not in rules:
            raise InvalidSchema(self._where, "every value that fits it would be endless")
        return Grammar(rules, tuple(self._lost))

    def _node(self, schema: Any, path: str) -> Node | None:
        """What fits a subschema, or None if nothing does."""
        self._left -= 1
        if self._left < 0:
            raise InvalidSchema(self._where, f"it unfolds to more than {_BUDGET} subschemas, too many for a grammar")
        match schema:
            case True:
                return RuleReference("value")
            case {"$ref": str(pointer)}:
                return self._reference(schema, pointer, path)
            case {"allOf": list()}:
                return self._joined(schema, path)
            case {"enum": list()} | {"const": _}:
                return self._listed(schema, path)
            case {"anyOf": list(options)}:
                return self._union(schema, "anyOf", options, path)
            case {"oneOf": list(options)}:
                return self._union(schema, "oneOf", options, path)
            case dict():
                return self._typed(schema, path)
        return None

    def _inside(self, schema: Any, path: str) -> Node | None:
        """A part of a value: something was read before it."""
        before, self._open = self._open, frozenset()
        node = self._node(schema, path)
        self._open = before
        return node

    def rule(self, node: Node) -> RuleReference:
        """A rule of its own, for what is referred to more than once."""
        name = f"r{len(self._rules)}"
        self._rules[name] = node
        return RuleReference(name)

    def _lose(self, path: str, *keywords: str) -> None:
        for keyword in keywords:
            self._lost[f"{path or '(root)'}: {keyword}"] = None

    # Combinations.

    def _reference(self, schema: Schema, pointer: str, path: str) -> Node | None:
        siblings = {key: value for key, value in schema.items() if key != "$ref" and key not in ANNOTATIONS}
        if siblings:
            return self._joined({"allOf": [{"$ref": pointer}, siblings]}, path)
        if pointer in self._open:
            return None
        if pointer not in self._named:
            reserved = self.rule(EMPTY)
            self._named[pointer] = reserved
            before, self._open = self._open, self._open | {pointer}
            node = self._node(self._target(pointer), path)
            self._open = before
            if node is None:
                self._named[pointer] = None
            else:
                self._rules[reserved.rule] = node
        return self._named[pointer]

    def _target(self, pointer: str) -> Any:
        found: Any = self._root
        if not pointer.startswith("#"):
            raise InvalidSchema(self._where, f"{pointer!r} is outside of it; put it into $defs")
        for step in unquote(pointer[1:]).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            match found:
                case dict() if key in found:
                    found = found[key]
                case list() if key.isdecimal() and int(key) < len(found):
                    found = found[int(key)]
                case _:
                    raise InvalidSchema(self._where, f"there is nothing at {pointer!r}")
        return found

    def _followed(self, schema: Any) -> Any:
        """The schema itself where it is only a reference, for merging; a loop of references fits nothing."""
        for _ in range(_LONGEST_CHAIN):
            if not (isinstance(schema, dict) and isinstance(schema.get("$ref"), str)):
                return schema
            target = self._target(schema["$ref"])
            rest = {key: value for key, value in schema.items() if key != "$ref" and key not in ANNOTATIONS}
            schema = {"allOf": [target, rest]} if rest else target
        return False

    def _joined(self, schema: Schema, path: str) -> Node | None:
        """What fits all of several schemas: they are merged into one, as far as that goes."""
        whole: Any = {key: value for key, value in schema.items() if key != "allOf" and key not in ANNOTATIONS}
        for part in schema["allOf"]:
            both = merged_schema(whole, self._followed(part))
            if both is None:
                self._lose(path, "allOf")
            else:
                whole = both
        return self._node(whole, path)

    def _union(self, schema: Schema, keyword: str, options: list[Any], path: str) -> Node | None:
        base = {key: value for key, value in schema.items() if key != keyword and key not in ANNOTATIONS}
        if keyword == "oneOf" and not at_most_one_fits([self._followed(option) for option in options]):
            self._lose(path, "oneOf")
        nodes: list[Node] = []
        for option in options:
            node = self._node({"allOf": [base, option]} if base else option, path)
            if node is not None:
                nodes.append(node)
        return alt(*nodes) if nodes else None

    def _listed(self, schema: Schema, path: str) -> Node | None:
        """Values by name, those of them that fit the rest."""
        simple = {key: value for key, value in schema.items() if key in SIMPLE}
        self._lose(path, *sorted(schema.keys() - simple.keys() - ANNOTATIONS))
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        validator = Validator({**self._dialect(), **simple}, self._where)
        fitting = [value for value in values if not validator.problems(value)]
        return alt(*(LiteralRule(literal_json(value)) for value in fitting)) if fitting else None

    def _dialect(self) -> Schema:
        declared = self._root.get("$schema") if isinstance(self._root, dict) else None
        return {"$schema": declared} if isinstance(declared, str) else {}

    # Kinds.

    def _typed(self, schema: Schema, path: str) -> Node | None:
        said = schema.keys() - ANNOTATIONS - {"type"}
        kinds = kinds_of(schema, said)
        self._lose(path, *unenforced_keywords(schema, said, kinds))
        if "type" not in schema and not kinds:
            return RuleReference("value")
        nodes = [self._kind(kind, schema, path) for kind in kinds]
        fitting = [node for node in nodes if node is not None]
        return alt(*fitting) if fitting else None

    def _kind(self, kind: str, schema: Schema, path: str) -> Node | None:
        match kind:
            case "object":
                return self._object(schema, path)
            case "array":
                return self._array(schema, path)
            case "string":
                return self._string(schema, path)
            case "integer":
                return self._integer(schema, path)
        return RuleReference(kind)

    def _object(self, schema: Schema, path: str) -> Node | None:
        properties = dict(schema.get("properties") or {})
        required = schema.get("required") or ()
        more = schema.get("additionalProperties", True)
        properties.update({name: more for name in required if name not in properties})
        if not properties:
            return self._map(more, path)
        pairs: list[tuple[Node, bool]] = []
        for name, subschema in properties.items():
            node = self._inside(subschema, f"{path}/{name}")
            if node is not None:
                pairs.append((seq(literal_json(name) + ": ", node), name in required))
            elif name in required:
                return None
        return seq("{", self._chain(pairs), "}")

    def _chain(self, pairs: list[tuple[Node, bool]]) -> Node:
        """Pairs in their order, with commas between those that are there."""
        first: Node = EMPTY
        rest: Node = EMPTY
        for pair, needed in reversed(pairs):
            here = self.rule(pair if rest == EMPTY else seq(pair, rest))
            follows = seq(", ", here)
            first = here if needed else alt(here, first)
            rest = follows if needed else self.rule(alt(follows, rest))
        return first

    def _map(self, values: Any, path: str) -> Node:
        node = self._inside(values, f"{path}/*")
        return (
            LiteralRule("{}")
            if node is None
            else seq("{", _several(seq(RuleReference("string"), ": ", node), 0, None), "}")
        )

    def _array(self, schema: Schema, path: str) -> Node | None:
        items, extra = schema.get("items", True), schema.get("additionalItems", True)
        prefix = schema.get("prefixItems") or (items if isinstance(items, list) else [])
        least, most = self._counts(schema, "minItems", "maxItems", path)
        item = self._inside(extra if isinstance(items, list) else items, f"{path}[]")
        if item is None and least > len(prefix):
            return None
        if not prefix:
            return seq("[", EMPTY if item is None or most == 0 else _several(self.rule(item), least, most), "]")
        return self._tuple([self._inside(each, f"{path}[]") for each in prefix], item, least, most)

    def _tuple(self, prefix: list[Node | None], item: Node | None, least: int, most: int | None) -> Node | None:
        room = None if most is None else most - len(prefix)
        tail: Node = EMPTY
        if item is not None and (room is None or room > 0):
            tail = RepeatRule(seq(", ", item), max(0, least - len(prefix)), room)
        for index in range(len(prefix) - 1, -1, -1):
            node = prefix[index]
            if node is None or (most is not None and index >= most):
                if index < least:
                    return None
                tail = EMPTY
                continue
            here = seq(*((", ",) if index else ()), node, *(() if tail == EMPTY else (tail,)))
            tail = here if index < least else optional(here)
        return seq("[", tail, "]")

    def _string(self, schema: Schema, path: str) -> Node | None:
        least, most = self._counts(schema, "minLength", "maxLength", path)
        if "pattern" not in schema:
            plain = (least, most) == (0, None)
            return RuleReference("string") if plain else seq('"', RepeatRule(RuleReference("char"), least, most), '"')
        try:
            node = pattern_node(str(schema["pattern"]))
        except UnsupportedPattern:
            self._lose(path, "pattern")
            return seq('"', RepeatRule(RuleReference("char"), least, most), '"')
        self._lose(path, *(keyword for keyword in ("minLength", "maxLength") if keyword in schema))
        return seq('"', node, '"')

    def _counts(self, schema: Schema, lower: str, upper: str, path: str) -> tuple[int, int | None]:
        least, most = schema.get(lower, 0), schema.get(upper)
        if least > _MOST:
            self._lose(path, lower)
            least = 0
        if most is not None and most > _MOST:
            self._lose(path, upper)
            most = None
        return int(least), None if most is None else int(most)

    def _integer(self, schema: Schema, path: str) -> Node | None:
        low, high = _bounds(schema)
        match low, high:
            case None, None:
                return RuleReference("integer")
            case int(), int() if high - low <= _MOST:
                return alt(*(LiteralRule(str(each)) for each in range(low, high + 1))) if low <= high else None
            case (0 | 1) as start, None:
                return NATURAL if start == 0 else POSITIVE
        self._lose(path, *sorted(schema.keys() & ENFORCED["integer"]))
        return RuleReference("integer")


def _several(item: Node, least: int, most: int | None) -> Node:
    more = RepeatRule(seq(", ", item), max(0, least - 1), None if most is None else most - 1)
    some = item if more.most == 0 else seq(item, more)
    return some if least else optional(some)


def _bounds(schema: Schema) -> tuple[int | None, int | None]:
    """The least and the greatest integer, in both dialects of `exclusive…`."""
    lows, highs = [], []
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is not None:
        lows.append(math.floor(low) + 1 if above is True else math.ceil(low))
    if high is not None:
        highs.append(math.ceil(high) - 1 if below is True else math.floor(high))
    if above is not None and not isinstance(above, bool):
        lows.append(math.floor(above) + 1)
    if below is not None and not isinstance(below, bool):
        highs.append(math.ceil(below) - 1)
    return max(lows, default=None), min(highs, default=None)


def literal_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def rule_references(node: Node) -> Iterator[str]:
    """The rules that a node refers to."""
    match node:
        case RuleReference(rule):
            yield rule
        case SequenceRule(nodes) | AlternativesRule(nodes):
            for each in nodes:
                yield from rule_references(each)
        case RepeatRule(inner):
            yield from rule_references(inner)
