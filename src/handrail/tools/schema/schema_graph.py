"""A schema as a graph of subschemas: which apply in place, which to a part, what refers to what.

It exists to refuse what must not be compiled (references that leave the schema,
loops that consume nothing, fan-outs), and to know which subschemas meet at a place
in a value. It does not validate; `validator.py` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from handrail.core.redact import MASK, is_secret
from handrail.core.secret_pointers import child_pointer as place_below

DIALECTS = {
    # $schema                                        year, or number of the draft
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
_BUILT_IN = ("https://json-schema.org/draft/2019-09/meta/", "https://json-schema.org/draft/2020-12/meta/")

_MAX_OVERRIDES = 50

_IN_PLACE = ("not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")
_EVERY_ITEM = ("items", "additionalItems", "contains", "unevaluatedItems")
_OTHER_FIELDS = ("additionalProperties", "unevaluatedProperties")
_NEVER_APPLIED = ("$defs", "definitions", "propertyNames", "contentSchema")
_MAPS = ("dependentSchemas", "dependencies", "patternProperties", "$defs", "definitions")


class UnusableSchema(Exception):
    """Why a schema cannot be used; the caller knows whose it is."""


@dataclass(slots=True)
class SchemaNode:
    """One subschema. Numbers are places in `SchemaGraph.nodes`."""

    schema: dict[str, Any]
    base: str
    dialect: int
    in_place: list[int] = field(default_factory=list)
    fields: dict[str, int] = field(default_factory=dict)
    other_fields: list[int] = field(default_factory=list)
    patterns: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    every_item: list[int] = field(default_factory=list)

    @property
    def is_secret(self) -> bool:
        return is_secret(self.schema)


class SchemaGraph:
    """Every subschema that can be reached, with its references resolved.

    Raises:
        UnusableSchema: A reference leaves the schema or names nothing in it; an unknown dialect; too many subschemas.
    """

    def __init__(self, schema: dict[str, Any] | bool, dialect: int, max_nodes: int) -> None:
        self.nodes: list[SchemaNode] = []
        self._max_nodes = max_nodes
        self._seen: dict[int, int] = {}
        self._resources: dict[str, int] = {}
        self._anchors: dict[tuple[str, str], int] = {}
        self._dynamic: dict[str, list[int]] = {}
        self._leaf = self._add(SchemaNode({}, "", dialect))
        self.root = self._visit(schema, "", dialect)
        self._resources.setdefault("", self.root)
        done = 0
        while done < len(self.nodes):  # a pointer into an unknown keyword adds nodes on the way
            self._link(self.nodes[done])
            done += 1
        self._secret = any(node.is_secret for node in self.nodes)

    def weights(self, max_chain: int) -> list[int]:
        """The number of subschemas, for each node, that one value meets there, references followed.

        Raises:
            UnusableSchema: A subschema applies to the same value again, without end; or the chain is too long.
        """
        weights = [0] * len(self.nodes)
        for index in range(len(self.nodes)):
            self._weigh(index, weights, [], max_chain)
        return weights

    def count_patterns(self) -> int:
        schemas = [node.schema for node in self.nodes]
        return sum(("pattern" in schema) + len(_items(schema.get("patternProperties"))) for schema in schemas)

    def at(self, path: list[str | int]) -> list[SchemaNode]:
        """The subschemas that may apply at a place of a value."""
        here = self._closure({self.root})
        for step in path:
            here = self._step(here, step)
        return [self.nodes[index] for index in here]

    def masked(self, value: Any) -> Any:
        """The same value with what the schema marks as secret replaced."""
        return self._mask(value, self._closure({self.root})) if self._secret else value

    def secret_places(self, value: Any) -> tuple[str, ...]:
        """The places in a value that the schema marks as secret, as JSON pointers."""
        return tuple(self._secrets(value, "", self._closure({self.root}))) if self._secret else ()

    @staticmethod
    def below(node: SchemaNode, step: str | int) -> Iterator[int]:
        """The subschemas that a node may apply to a field or an item; more than it does, never fewer."""
        if isinstance(step, str):
            if step in node.fields:
                yield node.fields[step]
            else:
                yield from node.other_fields
            yield from node.patterns
        else:
            if step < len(node.positions):
                yield node.positions[step]
            yield from node.every_item

    def _mask(self, value: Any, here: set[int]) -> Any:
        if any(self.nodes[index].is_secret for index in here):
            return MASK
        if isinstance(value, dict):
            return {key: self._mask(item, self._step(here, key)) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._mask(item, self._step(here, index)) for index, item in enumerate(value)]
        return value

    def _secrets(self, value: Any, place: str, here: set[int]) -> Iterator[str]:
        if place and any(self.nodes[index].is_secret for index in here):
            yield place
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from self._secrets(item, place_below(place, key), self._step(here, key))
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                yield from self._secrets(item, place_below(place, index), self._step(here, index))

    def _step(self, here: set[int], step: str | int) -> set[int]:
        return self._closure({below for index in here for below in self.below(self.nodes[index], step)})

    def _closure(self, start: set[int]) -> set[int]:
        found, stack = set(start), list(start)
        while stack:
            for index in self.nodes[stack.pop()].in_place:
                if index not in found:
                    found.add(index)
                    stack.append(index)
        return found

    def _weigh(self, index: int, weights: list[int], chain: list[int], max_chain: int) -> int:
        if weights[index]:
            return weights[index]
        if index in chain:
            raise UnusableSchema("a reference leads back to itself without going into the value; break the loop")
        if len(chain) >= max_chain:
            raise UnusableSchema(f"more than {max_chain} references and combinations in a row; flatten it")
        chain.append(index)
        weight = 1
        for below in self.nodes[index].in_place:
            weight += self._weigh(below, weights, chain, max_chain)
        chain.pop()
        weights[index] = weight
        return weight

    def _add(self, node: SchemaNode) -> int:
        if len(self.nodes) > self._max_nodes:
            raise UnusableSchema(f"it has more than {self._max_nodes} subschemas; split the tool or simplify")
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _visit(self, schema: Any, base: str, dialect: int) -> int:
        """Number a subschema and everything below it, and note its identifiers."""
        if not isinstance(schema, dict):
            return self._leaf
        if id(schema) in self._seen:
            return self._seen[id(schema)]
        if isinstance(schema.get("$schema"), str) and (not self._seen or "$id" in schema):
            dialect = dialect_of(schema["$schema"])
        node = SchemaNode(schema, base, dialect)
        index = self._seen[id(schema)] = self._add(node)
        self._identify(node, index)
        for keyword in (
            *_IN_PLACE,
            *_EVERY_ITEM,
            *_OTHER_FIELDS,
            "patternProperties",
            *_NEVER_APPLIED,
            "properties",
            "prefixItems",
        ):
            if keyword in schema:
                self._visit_keyword(node, keyword, schema[keyword])
        return index

    def _visit_keyword(self, node: SchemaNode, keyword: str, value: Any) -> None:
        if keyword == "properties":
            fields = {name: self._visit(sub, node.base, node.dialect) for name, sub in _items(value)}
            node.fields = {} if _ref_only(node) else fields
            return
        subs = [sub for _, sub in _items(value)] if keyword in _MAPS else value if isinstance(value, list) else [value]
        below = [self._visit(sub, node.base, node.dialect) for sub in subs]
        if _ref_only(node):
            return
        if keyword in _IN_PLACE:
            node.in_place += below
        elif keyword == "prefixItems" or (keyword == "items" and isinstance(value, list)):
            node.positions += below
        elif keyword in _EVERY_ITEM:
            node.every_item += below
        elif keyword in _OTHER_FIELDS:
            node.other_fields += below
        elif keyword == "patternProperties":
            node.patterns += below

    def _identify(self, node: SchemaNode, index: int) -> None:
        name = node.schema.get("id" if node.dialect == 4 else "$id")
        if isinstance(name, str) and not _ref_only(node):
            uri, anchor = urldefrag(name)
            if uri:
                node.base = urldefrag(_join(node.base, uri)).url
                self._resources.setdefault(node.base, index)
            if anchor and node.dialect <= 7:
                self._anchors.setdefault((node.base, anchor), index)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(label := node.schema.get(keyword), str):
                self._anchors.setdefault((node.base, label), index)
        for keyword in ("$dynamicAnchor", "$recursiveAnchor"):
            if label := node.schema.get(keyword):
                self._dynamic.setdefault(f"{keyword} {label}", []).append(index)

    def _link(self, node: SchemaNode) -> None:
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(reference := node.schema.get(keyword), str):
                target = self._resolve(keyword, reference, node)
                node.in_place += {target, *self._overrides(keyword, target)}

    def _overrides(self, keyword: str, target: int) -> list[int]:
        """The targets of a dynamic reference besides the one that it names."""
        if keyword == "$ref":
            return []
        anchor = "$dynamicAnchor" if keyword == "$dynamicRef" else "$recursiveAnchor"
        found = self._dynamic.get(f"{anchor} {self.nodes[target].schema.get(anchor)}", [])
        if len(found) > _MAX_OVERRIDES:
            raise UnusableSchema(f"more than {_MAX_OVERRIDES} subschemas share one {anchor}; give them different names")
        return found

    def _resolve(self, keyword: str, reference: str, node: SchemaNode) -> int:
        uri, fragment = urldefrag(_join(node.base, reference))
        if uri not in self._resources:
            if uri in DIALECTS or uri.startswith(_BUILT_IN):
                return self._leaf
            raise UnusableSchema(
                f"{keyword} {reference!r} leads out of the schema, and nothing is read from elsewhere; "
                "copy what it names into '$defs' and refer to it there"
            )
        root, fragment = self._resources[uri], unquote(fragment)
        if not fragment:
            return root
        if not fragment.startswith("/"):
            if (uri, fragment) in self._anchors:
                return self._anchors[uri, fragment]
            raise UnusableSchema(f"{keyword} {reference!r} names nothing in the schema; correct or remove it")
        return self._point(keyword, reference, fragment, self.nodes[root])

    def _point(self, keyword: str, reference: str, pointer: str, start: SchemaNode) -> int:
        found: Any = start.schema
        base, dialect = start.base, start.dialect
        for part in pointer[1:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(part)] if isinstance(found, list) else found[part]
            except (KeyError, IndexError, TypeError, ValueError):
                raise UnusableSchema(
                    f"{keyword} {reference!r} names nothing in the schema; correct or remove it"
                ) from None
            if id(found) in self._seen:
                node = self.nodes[self._seen[id(found)]]
                base, dialect = node.base, node.dialect
        return self._visit(found, base, dialect)


def dialect_of(uri: str) -> int:
    """The dialect that a `$schema` names.

    Raises:
        UnusableSchema: None that we know.
    """
    if (found := DIALECTS.get(uri.removesuffix("#"))) is None:
        raise UnusableSchema(f"its '$schema' {uri!r} is unknown; use one of {', '.join(DIALECTS)}")
    return found


def _ref_only(node: SchemaNode) -> bool:
    """Up to Draft 7, a `$ref` hides everything beside it."""
    return node.dialect <= 7 and isinstance(node.schema.get("$ref"), str)


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _join(base: str, reference: str) -> str:
    # urljoin knows no relative references of schemes such as urn:
    return urldefrag(base).url + reference if reference.startswith("#") else urljoin(base, reference)
