"""What `Annotated` says about a type: limits and words, read by attribute so that no library need be there.

annotated_types, msgspec.Meta and pydantic's Field use the same attribute names.
Anything else in `Annotated` is for somebody else and is left alone.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from handrail.tools.types.scalars import Convert

_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
    "multiple_of": lambda value, step: value % step == 0,
    "min_length": lambda value, least: len(value) >= least,
    "max_length": lambda value, most: len(value) <= most,
    "pattern": lambda value, pattern: re.search(pattern, value) is not None,
    "func": lambda value, test: test(value),
}
_WORDS = ("description", "title", "documentation")
_EXTRAS = ("extra_json_schema", "json_schema_extra")


@dataclass(frozen=True, slots=True)
class TypeLimit:
    """One limit: its name as annotated_types spells it, and its value."""

    name: str
    value: Any

    def admits(self, value: Any) -> bool:
        try:
            return bool(_TESTS[self.name](value, self.value))
        except TypeError:
            return True  # as in JSON Schema, a limit says nothing about values it does not fit


@dataclass(frozen=True, slots=True)
class TypeRemarks:
    """All that the metadata of one `Annotated` says."""

    limits: tuple[TypeLimit, ...] = ()
    annotations: Mapping[str, Any] | None = None
    """Keywords that inform and do not limit, and those given as JSON Schema."""


def read_remarks(metadata: Iterable[Any]) -> TypeRemarks:
    limits: list[TypeLimit] = []
    annotations: dict[str, Any] = {}
    for item in _flat(metadata):
        if isinstance(item, str):
            annotations["description"] = item
        elif not isinstance(item, type):
            limits += _limits(item)
            annotations |= _annotations(item)
    return TypeRemarks(tuple(limits), annotations)


def with_limit_checks(convert: Convert | None, limits: Iterable[TypeLimit]) -> Convert | None:
    """The converter, followed by a check of each limit on what it gives."""
    wanted = tuple(limits)
    if not wanted:
        return convert

    def check(value: Any) -> Any:
        made = value if convert is None else convert(value)
        for limit in wanted:
            if not limit.admits(made):
                raise ValueError(f"{value!r} is outside the limit {limit.name}={limit.value!s}")
        return made

    return check


def _flat(metadata: Iterable[Any]) -> Iterable[Any]:
    for item in metadata:
        inner = getattr(item, "metadata", None)
        if isinstance(inner, list | tuple) and not isinstance(item, type):
            yield from _flat(inner)
        yield item


def _limits(item: Any) -> list[TypeLimit]:
    found = []
    for name in _TESTS:
        value = getattr(item, name, None)
        if value is None or (name == "min_length" and value == 0):
            continue
        match name:
            case "pattern":
                value = getattr(value, "pattern", value)
            case "func" if type(item).__name__ != "Predicate":
                continue
        found.append(TypeLimit(name, value))
    return found


def _annotations(item: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _WORDS:
        words = getattr(item, name, None)
        if isinstance(words, str) and words:
            found["description" if name == "documentation" else name] = words
    examples = getattr(item, "examples", None)
    if isinstance(examples, list) and examples:
        found["examples"] = examples
    for name in _EXTRAS:
        extra = getattr(item, name, None)
        if isinstance(extra, Mapping):
            found |= extra
    return found
