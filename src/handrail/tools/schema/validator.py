"""The one validator: arguments and results, of functions, files, MCP servers and buses alike.

A schema is taken in the dialect its `$schema` names (Draft 4 to 2020-12) or refused
with the reason. It may come from a stranger, so nothing outside it is read, patterns
run in linear time, and what would take too much room or time is not compiled.
`format` follows the dialect: asserted up to Draft 7, a remark from 2019-09 on. The
functions' own types check dates and ids again when values are converted.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
from msgspec import Struct

from handrail.core.errors import InvalidSchema
from handrail.core.jsontext import why_not_json
from handrail.tools.schema.error_messages import ValidationMessages
from handrail.tools.schema.schema_graph import SchemaGraph, UnusableSchema, dialect_of

_CLASSES: dict[int, type[jsonschema_rs.Validator]] = {
    4: jsonschema_rs.Draft4Validator,
    6: jsonschema_rs.Draft6Validator,
    7: jsonschema_rs.Draft7Validator,
    2019: jsonschema_rs.Draft201909Validator,
    2020: jsonschema_rs.Draft202012Validator,
}
_PATTERN_BYTES = 4 * 1024 * 1024
_VALUE_DEPTH = 250  # jsonschema_rs reports no errors in values deeper than 255


class SchemaBudget(Struct, frozen=True):
    """How much a schema may cost."""

    bytes: int = 256 * 1024
    """The size as JSON."""
    depth: int = 64
    """The depth of its JSON."""
    subschemas: int = 5_000
    expansion: int = 20_000
    """The number of subschemas that one value may meet, references followed."""
    chain: int = 256
    """The number of references and combinations that may follow each other without going into the value."""
    patterns: int = 64 * 1024 * 1024
    """Bytes that all its compiled patterns may take together."""
    report: int = 100_000
    """The number of steps, each a subschema and a part of a value, that are taken to say what is wrong."""


class Validator:
    """A compiled schema. It keeps a copy: later changes of the dict have no effect.

    Raises:
        InvalidSchema: The schema cannot be used; `why` says what to change.
    """

    __slots__ = ("_budget", "_compiled", "_graph", "_is_valid", "_root", "_weights")

    def __init__(
        self,
        schema: dict[str, Any] | bool,
        where: str,
        *,
        root: str = "(arguments)",
        budget: SchemaBudget = SchemaBudget(),
    ) -> None:
        self._root = root
        self._budget = budget
        try:
            own = _copied(schema, budget)
            dialect = _dialect(own)
            self._graph = SchemaGraph(own, dialect, budget.subschemas)
            self._weights = self._graph.weights(budget.chain)
            if max(self._weights) > budget.expansion:
                raise UnusableSchema(f"its references unfold to more than {budget.expansion} subschemas for one value")
            share = budget.patterns // max(1, self._graph.count_patterns())
            self._compiled = _compiled(own, dialect, min(share, _PATTERN_BYTES))
        except UnusableSchema as refused:
            raise InvalidSchema(where, str(refused)) from None
        self._is_valid = self._compiled.is_valid

    def problems(self, value: Any) -> list[str]:
        """What is wrong with a value, one sentence each, in words for the model; empty if nothing is."""
        try:
            odd = why_not_json(value, _VALUE_DEPTH)
            if odd is None:
                return [] if self._is_valid(value) else self._explain(value)
        except (ValueError, RecursionError) as error:
            odd = f"it cannot be checked ({type(error).__name__})"
        return [f"{self._root}: expected a JSON value, but {odd}"]

    def secret_places(self, value: Any) -> tuple[str, ...]:
        """The places in a value that the schema marks as secret, as JSON pointers."""
        return self._graph.secret_places(value)

    def _explain(self, value: Any) -> list[str]:
        # Listing errors repeats what checking remembers: in a recursive schema it can take for ever.
        if not _affordable(self._graph, self._weights, value, self._budget.report):
            return [f"{self._root}: does not match the schema; it is too large or too deep to say where, send less"]
        errors = self._compiled.iter_errors(value)
        return ValidationMessages(self._graph, self._root, self._graph.masked(value)).all(errors)


def _copied(schema: Any, budget: SchemaBudget) -> Any:
    if not isinstance(schema, (dict, bool)):
        raise UnusableSchema(f"expected an object or a boolean, got {type(schema).__name__}")
    if (why := why_not_json(schema, budget.depth)) is not None:
        raise UnusableSchema(f"it is not JSON of at most {budget.depth} levels: {why}")
    text = json.dumps(schema)  # msgspec writes no integers beyond 64 bits
    size = len(text)
    if size > budget.bytes:
        raise UnusableSchema(f"it takes {size} bytes as JSON, and at most {budget.bytes} are allowed; shorten it")
    return json.loads(text)


def _dialect(schema: dict[str, Any] | bool) -> int:
    name = schema.get("$schema") if isinstance(schema, dict) else None
    if name is not None and not isinstance(name, str):
        raise UnusableSchema("its '$schema' is not text")
    return 2020 if name is None else dialect_of(name)


def _compiled(schema: dict[str, Any] | bool, dialect: int, pattern_bytes: int) -> jsonschema_rs.Validator:
    limits = jsonschema_rs.RegexOptions(size_limit=pattern_bytes, dfa_size_limit=pattern_bytes)
    try:
        return _CLASSES[dialect](schema, retriever=_deny, pattern_options=limits)
    except jsonschema_rs.ValidationError as error:
        raise UnusableSchema(_reason(error)) from None
    except ValueError as error:
        raise UnusableSchema(str(error)) from None


def _reason(error: jsonschema_rs.ValidationError) -> str:
    place = "/".join(map(str, error.instance_path)) or "its top"
    if ' is not a "regex"' in error.message:
        return (
            f"the pattern at {place} is not a regular expression of bounded size in linear time; "
            "look-around and back-references are not supported because they can hang"
        )
    return f"at {place}: {error.message[:300]}"


def _deny(uri: str) -> Any:
    raise ValueError(f"{uri} is not read: schemas stand alone")


def _affordable(graph: SchemaGraph, weights: list[int], value: Any, limit: int) -> bool:
    """Whether all errors of a value can be listed in at most about `limit` steps."""
    known: dict[tuple[int, int], int] = {}

    def steps(index: int, part: Any) -> int:
        if not isinstance(part, (dict, list, tuple)):
            return weights[index]
        key = (index, id(part))
        if key not in known:
            node = graph.nodes[index]
            total = 1 + sum(steps(other, part) for other in node.in_place)
            for step, item in part.items() if isinstance(part, dict) else enumerate(part):
                for below in graph.below(node, step):
                    total += steps(below, item)
            if total > limit or len(known) > limit:
                raise OverflowError
            known[key] = total
        return known[key]

    try:
        return steps(graph.root, value) <= limit
    except (OverflowError, RecursionError):
        return False
