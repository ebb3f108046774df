"""JSON Schema 2020-12 from Python types and their docstrings.

It is self-contained: every `$ref` points into the schema's own `$defs`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, assert_never

import msgspec
from msgspec import Struct, field

from handrail.core.redact import Secret
from handrail.tools.types.keywords import add_keywords, limit_keywords
from handrail.tools.types.records import MISSING, RecordField, read_record
from handrail.tools.types.scalars import SCALARS
from handrail.tools.types.type_nodes import (
    AliasNode,
    AnyNode,
    ArrayNode,
    ChoiceNode,
    MappingNode,
    ModelNode,
    Node,
    RecordNode,
    RemarkedNode,
    ScalarNode,
    TupleNode,
    UnionNode,
    leaf_nodes,
    read_type,
)

if TYPE_CHECKING:
    import docstring_parser

_JSON_TYPES: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def schema_of(annotation: Any) -> dict[str, Any]:
    """The schema of the JSON values that stand for this type.

    Raises:
        InvalidDefinition: The type has no JSON form.
    """
    return schema_of_node(read_type(annotation))


def schema_of_node(node: Node) -> dict[str, Any]:
    builder = SchemaBuilder()
    return builder.finish(builder.of(node))


def default_keyword(node: Node, value: Any) -> dict[str, Any]:
    """`{"default": …}` if the value has a JSON form and is no secret, else nothing."""
    if value is MISSING or _is_named_tuple(value) or any(leaf == ScalarNode(Secret) for leaf in leaf_nodes(node)):
        return {}
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_as_json_value)
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return {}
    return {"default": plain}


class SchemaBuilder:
    """Builds the schemas of several types that share their definitions."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._bodies: dict[str, dict[str, Any]] = {}
        self._references: dict[str, list[dict[str, Any]]] = {}
        self._foreign: dict[str, dict[str, Any]] = {}

    def of(self, node: Node) -> dict[str, Any]:
        """The schema of a type, complete once `finish` has run. It may be added to, but not copied before."""
        match node:
            case AnyNode():
                return {}
            case ScalarNode(kind):
                return dict(SCALARS[kind].schema)
            case ChoiceNode(members, enum):
                return _enumeration(json for json, _ in members) if enum is None else self._enum(enum, members)
            case ArrayNode(item, make):
                unique = {"uniqueItems": True} if make in (set, frozenset) else {}
                return {"type": "array", "items": self.of(item), **unique}
            case TupleNode(items):
                return _row([self.of(item) for item in items])
            case MappingNode(key, value):
                values = {} if value == AnyNode() else {"additionalProperties": self.of(value)}
                return {"type": "object", **self._property_names(key), **values}
            case UnionNode(members):
                return {"anyOf": [self.of(member) for member in members]}
            case RecordNode(cls, arguments):
                suffix = "".join(f"_{getattr(argument, '__name__', argument)}" for argument in arguments)
                return self._named(node, cls.__name__ + suffix, lambda _: self._record(cls, arguments))
            case ModelNode(cls):
                return self._named(cls, cls.__name__, lambda name: self._model(cls, name))
            case AliasNode(name, key, target):
                return self._named(key, name, lambda _: self.of(read_type(target)))
            case RemarkedNode(base, remarks):
                schema = self.of(base)
                add_keywords(schema, {**limit_keywords(base, remarks.limits), **(remarks.annotations or {})})
                return schema
        assert_never(node)

    def finish(self, root: dict[str, Any]) -> dict[str, Any]:
        """Put what is used once where it is used, and the rest into `$defs`.

        A definition that contains itself is used at least twice, so it stays.
        """
        kept = dict(self._foreign)
        for name, body in self._bodies.items():  # inner ones were completed first, so they come first
            match self._references[name]:
                case [only]:
                    added = {key: value for key, value in only.items() if key != "$ref"}
                    only.clear()
                    only.update(body)
                    add_keywords(only, added)
                case _:
                    kept[name] = body
        return {**root, "$defs": kept} if kept else root

    def _named(self, key: Any, wanted: str, build: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
        """A reference to the definition of a named type, which is built the first time."""
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self._free_name(wanted)
            self._references[name] = []
            self._bodies[name] = build(name)
        reference = {"$ref": f"#/$defs/{name}"}
        self._references[name].append(reference)
        return reference

    def _free_name(self, wanted: str) -> str:
        wanted = re.sub(r"[^A-Za-z0-9_.-]+", "_", wanted).strip("_")
        name, count = wanted, 2
        while name in self._references or name in self._foreign:
            name, count = f"{wanted}_{count}", count + 1
        return name

    def _enum(self, enum: type[Enum], members: tuple[tuple[Any, Any], ...]) -> dict[str, Any]:
        return self._named(enum, enum.__name__, lambda _: _described(enum, _enumeration(json for json, _ in members)))

    def _record(self, cls: type, arguments: tuple[Any, ...]) -> dict[str, Any]:
        shape = read_record(cls, arguments)
        words = _class_docstring(cls)
        properties = {
            field.key: self.field(field, read_type(field.hint), words.parameters.get(field.name))
            for field in shape.fields
        }
        required = [field.key for field in shape.fields if field.required]
        if shape.tag is not None:
            key, value = shape.tag
            properties = {key: _enumeration([value]), **properties}
            required = [key, *required]
        return {
            **({"description": words.description} if words.description else {}),
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }

    def field(self, field: RecordField, node: Node, words: str | None) -> dict[str, Any]:
        """The schema of a field or parameter, with its description and default."""
        schema = self.of(node)
        if words and not has_description(node):
            schema["description"] = words
        add_keywords(schema, default_keyword(node, field.default))
        return schema

    def _model(self, cls: Any, name: str) -> dict[str, Any]:
        """A schema made elsewhere, its definitions moved to ours."""
        schema: dict[str, Any] = cls.model_json_schema()
        inner = schema.pop("$defs", {})
        if schema == {"$ref": f"#/$defs/{name}"}:
            schema = inner.pop(name)
            self._references[name].append({})  # it refers to itself
        if any(self._taken(other, body) for other, body in inner.items()):
            schema = cls.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
            inner = {f"{name}.{other}": body for other, body in schema.pop("$defs").items()}
        self._foreign |= inner
        return schema

    def _taken(self, name: str, body: dict[str, Any]) -> bool:
        return name in self._references or self._foreign.get(name, body) != body

    def _property_names(self, key: Node) -> dict[str, Any]:
        if key == ScalarNode(str):
            return {}
        if key == ScalarNode(int):
            return {"propertyNames": {"pattern": "^-?(0|[1-9][0-9]*)$"}}
        return {"propertyNames": self.of(key)}


def has_description(node: Node) -> bool:
    """Whether the annotation itself holds a description."""
    return isinstance(node, RemarkedNode) and "description" in (node.remarks.annotations or {})


def _enumeration(values: Iterable[Any]) -> dict[str, Any]:
    listed = list(values)
    kinds = {_JSON_TYPES[type(value)] for value in listed}
    return {**({"type": kinds.pop()} if len(kinds) == 1 else {}), "enum": listed}


def _row(items: list[dict[str, Any]]) -> dict[str, Any]:
    prefix = {"prefixItems": items} if items else {}
    return {"type": "array", **prefix, "minItems": len(items), "maxItems": len(items)}


def _described(cls: type, schema: dict[str, Any]) -> dict[str, Any]:
    words = _class_docstring(cls).description
    return {"description": words, **schema} if words else schema


def _class_docstring(cls: type) -> ParsedDocstring:
    """What the author wrote under the class; not what dataclass and NamedTuple put there themselves."""
    text = cls.__dict__.get("__doc__")
    if not isinstance(text, str) or text.startswith(f"{cls.__name__}(") or text == "An enumeration.":
        return ParsedDocstring()
    return read_docstring(text)


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _as_json_value(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__name__} has no JSON form")


class ParsedDocstring(Struct, frozen=True):
    description: str = ""
    """The first sentence and the text after it, without the sections."""
    parameters: dict[str, str] = field(default_factory=dict)
    returns: str = ""


def read_docstring(text: str | None) -> ParsedDocstring:
    """Read a docstring in whichever style tells the most. What no style understands is all description."""
    if not text or not text.strip():
        return ParsedDocstring()
    parsed = _parse(inspect.cleandoc(text))
    if parsed is None:
        return ParsedDocstring(_fold(inspect.cleandoc(text)))
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    description = gap.join(part for part in (parsed.short_description, parsed.long_description) if part)
    parameters = {
        name.strip().lstrip("*\\"): _fold(parameter.description or "")
        for parameter in parsed.params
        for name in parameter.arg_name.split(",")
    }
    returns = (parsed.returns and parsed.returns.description) or ""
    return ParsedDocstring(
        _fold(description), {name: words for name, words in parameters.items() if words}, _fold(returns)
    )


def _parse(text: str) -> docstring_parser.Docstring | None:
    import docstring_parser
    from docstring_parser import DocstringStyle

    best: docstring_parser.Docstring | None = None
    for style in (DocstringStyle.GOOGLE, DocstringStyle.NUMPYDOC, DocstringStyle.REST):
        try:
            parsed = docstring_parser.parse(text, style=style)
        except Exception:  # whatever a parser makes of text that was not meant for it
            continue
        if best is None or len(parsed.meta) > len(best.meta):
            best = parsed
    return best


_KEEPS_ITS_LINE = re.compile(r"\s|[-*•+>|`]|\d+[.)]\s")


def _fold(text: str) -> str:
    """Join the lines of each paragraph; lists, indented lines and blank lines stay."""
    lines: list[str] = []
    for line in inspect.cleandoc(text).splitlines():
        joins = bool(lines and lines[-1] and line.strip()) and not _KEEPS_ITS_LINE.match(line)
        if joins and not lines[-1].startswith((" ", "`")):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
