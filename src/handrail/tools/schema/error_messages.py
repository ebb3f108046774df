"""What a validator found, in words that a model can act on: `path: expected …, got …`.

Only parts of the value that the schema does not mark as secret are shown, and
no more than a line of any.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import zip_longest
from typing import Any

from jsonschema_rs import ValidationError, ValidationErrorKind as Kind

from handrail.core.jsontext import kind_of
from handrail.core.redact import MASK
from handrail.tools.schema.schema_graph import SchemaGraph

MAX_SHOWN = 60
MAX_PROBLEMS = 20
_MAX_OPTIONS = 12
_MAX_FORMS = 4
_MAX_KNOWN = 500  # among more names, the nearest takes long to find
_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


class ValidationMessages:
    """Says what is wrong with one value, which comes with its secrets masked."""

    __slots__ = ("_graph", "_root", "_value")

    def __init__(self, graph: SchemaGraph, root: str, value: Any) -> None:
        self._graph = graph
        self._root = root
        self._value = value

    def all(self, errors: Iterable[ValidationError]) -> list[str]:
        """One sentence for each problem, none twice, and the number of those left out."""
        said: dict[str, None] = {}
        unsaid = 0
        for error in errors:
            if len(said) > MAX_PROBLEMS:
                unsaid += 1
                continue
            place = path_text(error.instance_path) or self._root
            said.update((f"{place}: {sentence}", None) for sentence in self._sentences(error))
        problems = list(said)
        if len(problems) > MAX_PROBLEMS:
            return [*problems[:MAX_PROBLEMS], f"… and {len(problems) - MAX_PROBLEMS + unsaid} more"]
        return problems

    def _sentences(self, error: ValidationError) -> list[str]:
        match error.kind:
            case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
                return self._unknown(error.instance_path, names)
            case Kind.Required(property=name):
                return [f"missing required {shown_value(name)}"]
            case Kind.AnyOf(context=forms) | Kind.OneOfNotValid(context=forms):
                return [self._forms(error, forms)]
            case Kind.OneOfMultipleValid():
                return ["fits more than one of the allowed forms; make it fit exactly one"]
            case Kind.PropertyNames(error=inner):
                return [f"field name {shown_value(inner.instance)} is not allowed: {expected_text(inner.kind)}"]
            case Kind.FalseSchema():
                return ["is not allowed here; leave it out"]
            case Kind.Type():
                return [f"{expected_text(error.kind)}, got {self._got(error, with_kind=True)}"]
        return [f"{expected_text(error.kind)}, got {self._got(error)}"]

    def _unknown(self, path: list[str | int], names: list[str]) -> list[str]:
        known = {name for node in self._graph.at(path) for name in node.fields}
        near = [_near(name, known) for name in names[:MAX_PROBLEMS]] if len(known) <= _MAX_KNOWN else []
        return [f"unknown field {shown_value(name)}{hint}" for name, hint in zip_longest(names, near, fillvalue="")]

    def _forms(self, error: ValidationError, forms: list[list[ValidationError]]) -> str:
        alone = [branch[0].kind for branch in forms if len(branch) == 1]
        here = all(branch[0].instance_path == error.instance_path for branch in forms if branch)
        if here and len(alone) == len(forms):
            if all(isinstance(kind, Kind.Type) for kind in alone):
                kinds = [name for kind in alone if isinstance(kind, Kind.Type) for name in kind.types]
                return f"expected {_either(kinds)}, got {self._got(error, with_kind=True)}"
            options = [option for kind in alone for option in _options(kind)]
            if all(_options(kind) for kind in alone):
                return f"expected one of {_listed(options)}, got {self._got(error)}"
        told = [f"({number}) {self._form(error, branch)}" for number, branch in enumerate(forms[:_MAX_FORMS], 1)]
        if len(forms) > _MAX_FORMS:
            told.append(f"and {len(forms) - _MAX_FORMS} more")
        return f"expected one of {len(forms)} forms, got {self._got(error, with_kind=True)}: {'; '.join(told)}"

    def _form(self, outer: ValidationError, branch: list[ValidationError]) -> str:
        told = []
        for error in branch[:2]:
            inside = path_text(error.instance_path[len(outer.instance_path) :])
            told.append(f"{inside} {self._brief(error)}".strip())
        return ", ".join(told) + (f" and {len(branch) - 2} more" if len(branch) > 2 else "")

    def _brief(self, error: ValidationError) -> str:
        match error.kind:
            case Kind.AnyOf(context=forms) | Kind.OneOfNotValid(context=forms):
                return f"expected one of {len(forms)} other forms"
            case Kind.Required() | Kind.AdditionalProperties() | Kind.UnevaluatedProperties():
                return "; ".join(self._sentences(error)[:2])
            case Kind.FalseSchema():
                return "is not allowed"
        return expected_text(error.kind)

    def _got(self, error: ValidationError, *, with_kind: bool = False) -> str:
        part = self._value
        for step in error.instance_path:
            part = part if part is MASK else part[step]
        if part is MASK:
            return "[redacted]"
        return f"{shown_value(part)} ({kind_of(part)})" if with_kind and part is not None else shown_value(part)


def expected_text(kind: Kind) -> str:
    """What would have been right, without the value that was not."""
    match kind:
        case Kind.Type(types=types):
            return f"expected {_either(types)}"
        case Kind.Enum(options=options):
            return f"expected one of {_listed(options)}" if len(options) != 1 else f"expected {shown_value(options[0])}"
        case Kind.Constant(expected_value=value):
            return f"expected {shown_value(value)}"
        case Kind.MultipleOf(multiple_of=number):
            return f"expected a multiple of {number}"
        case Kind.Pattern(pattern=pattern):
            return f"expected text that matches {_cut(pattern)!r}"
        case Kind.Format(format=name):
            return f"expected text in the form of a {name}"
        case Kind.ContentEncoding(content_encoding=name) | Kind.ContentMediaType(content_media_type=name):
            return f"expected {name} text"
        case Kind.Not(schema=schema):
            return f"expected anything but {_cut(json.dumps(schema, ensure_ascii=False, default=str))}"
    if (bound := _BOUNDS.get(type(kind))) is not None:
        limit: Any = getattr(kind, "limit", 0)
        return f"expected {bound[0]} {_count(limit, bound[1]) if bound[1] else limit}"
    return _WORDS.get(type(kind)) or f"expected what its schema says under {kind.name!r}"


_BOUNDS: dict[type, tuple[str, str]] = {
    Kind.Minimum: ("at least", ""),
    Kind.Maximum: ("at most", ""),
    Kind.ExclusiveMinimum: ("more than", ""),
    Kind.ExclusiveMaximum: ("less than", ""),
    Kind.AdditionalItems: ("at most", "item"),
    Kind.MinLength: ("at least", "character"),
    Kind.MaxLength: ("at most", "character"),
    Kind.MinItems: ("at least", "item"),
    Kind.MaxItems: ("at most", "item"),
    Kind.MinProperties: ("at least", "field"),
    Kind.MaxProperties: ("at most", "field"),
}
"""The words for each kind of limit, and what it counts."""
_WORDS: dict[type, str] = {
    Kind.UniqueItems: "expected items that all differ",
    Kind.Contains: "expected another number of items of the kind it must contain",
    Kind.UnevaluatedItems: "expected no further items",
}


def shown_value(value: Any) -> str:
    """A value in at most `MAX_SHOWN` characters: text in quotes, anything else as JSON."""
    if isinstance(value, str):
        return _cut(repr(value[: MAX_SHOWN + 1]))
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    return _cut(json.dumps(value, ensure_ascii=False, default=str))


def path_text(path: list[str | int]) -> str:
    """`items[3].price`; a field whose name is not a plain word stands in quotes and brackets."""
    text = ""
    for step in path:
        if isinstance(step, str) and _PLAIN.fullmatch(step) and len(step) <= MAX_SHOWN:
            text += f".{step}" if text else step
        else:
            text += f"[{shown_value(step)}]"
    return text


def _options(kind: Kind) -> list[Any]:
    match kind:
        case Kind.Enum(options=options):
            return options
        case Kind.Constant(expected_value=value):
            return [value]
    return []


def _listed(options: list[Any]) -> str:
    more = len(options) - _MAX_OPTIONS
    return ", ".join(map(shown_value, options[:_MAX_OPTIONS])) + (f" or {more} more" if more > 0 else "")


def _either(kinds: list[str]) -> str:
    return " or ".join(dict.fromkeys(kinds))


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name[:MAX_SHOWN], sorted(known), n=1)
    return f"; did you mean {shown_value(near[0])}?" if near else ""


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _cut(text: str) -> str:
    """The text in one line, with nothing in it that a terminal would act on."""
    start = text[: MAX_SHOWN + 1]
    if not start.isprintable():
        start = "".join(char if char.isprintable() else repr(char)[1:-1] for char in start)
    return start if len(start) <= MAX_SHOWN else start[: MAX_SHOWN - 1] + "…"
