"""The catalogue as a Python module: names as literal types, arguments as typed dicts, the rest as data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import to_builtins

from handrail.tools.snapshots.catalogue import CatalogueTool, NodeCatalogue, bracketed
from handrail.tools.snapshots.type_shapes import (
    ANYTHING,
    Fields,
    ListShape,
    LiteralShape,
    ObjectShape,
    ScalarShape,
    Shape,
    UnionShape,
    shape_of,
)

_DOCSTRING = '"""The tools and models of a node. Written by `handrail sync-capabilities`; do not change it here."""'
_TYPING = ("Any", "Final", "Literal", "Never", "NotRequired", "TypeAlias", "TypedDict")
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_FIXED = """\
class Tool(TypedDict):
    name: ToolName
    scoped_name: NotRequired[str]
    description: NotRequired[str]
    input_schema: dict[str, Any]
    returns_schema: NotRequired[dict[str, Any]]
    side_effects: NotRequired[bool]
    idempotent: NotRequired[bool]
    timeout_ms: NotRequired[int]
    tags: NotRequired[tuple[str, ...]]
    models: NotRequired[tuple[str, ...]]


class Model(TypedDict):
    id: ModelId
    provider: NotRequired[str]
    model: NotRequired[str]
    supports_tool_calls: bool
    tools: tuple[ToolName, ...]"""
_TUPLES = ("tags", "models", "tools")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def python_source(catalogue: NodeCatalogue) -> str:
    """The catalogue as a Python module with types."""
    names = [tool.name for tool in catalogue.tools]
    ids = [model.id for model in catalogue.models]
    tools = to_builtins(catalogue.tools)
    models = [{"id": model["id"], "supports_tool_calls": True, **model} for model in to_builtins(catalogue.models)]
    body = [
        f"ToolName: TypeAlias = {_literal(names)}\nModelId: TypeAlias = {_literal(ids)}",
        *map(_arguments, catalogue.tools),
        f"\n{_FIXED}\n",
        f"TOOL_NAMES: Final[tuple[ToolName, ...]] = {_lines(map(python_string, names))}\n"
        f"MODEL_IDS: Final[tuple[ModelId, ...]] = {_lines(map(python_string, ids))}",
        f"TOOLS: Final[tuple[Tool, ...]] = {_lines(_value(tool, 1, top=True) for tool in tools)}",
        f"MODELS: Final[tuple[Model, ...]] = {_lines(_value(model, 1, top=True) for model in models)}",
    ]
    written = "\n\n".join(body)
    used = [name for name in _TYPING if re.search(rf"\b{name}\b", written)]
    head = f"{_DOCSTRING}\n\nfrom __future__ import annotations\n\nfrom typing import {', '.join(used)}"
    return f"{head}\n\n{written}\n"


def python_string(text: str) -> str:
    """A literal of ASCII letters only."""
    return '"' + "".join(_ESCAPES.get(letter) or _escaped(letter) for letter in text) + '"'


def _escaped(letter: str) -> str:
    code = ord(letter)
    if " " <= letter <= "~":
        return letter
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _literal(names: list[str]) -> str:
    return f"Literal{_lines(map(python_string, names), 0, '[]')}" if names else "Never"


def _short_tuple(names: Iterable[str]) -> str:
    written = [python_string(name) for name in names]
    return f"({', '.join(written)}{',' if len(written) == 1 else ''})"


def _lines(items: Iterable[str], depth: int = 0, brackets: str = "()") -> str:
    return bracketed(items, depth, brackets, "    ")


def _value(value: Any, depth: int, *, top: bool = False) -> str:
    match value:
        case None | bool():
            return str(value)
        case str():
            return python_string(value)
        case dict():
            pairs = (
                (python_string(key), _short_tuple(item) if top and key in _TUPLES else _value(item, depth + 1))
                for key, item in (value.items() if top else sorted(value.items()))
            )
            return _lines((f"{key}: {item}" for key, item in pairs), depth, "{}")
        case list() | tuple():
            return _lines((_value(item, depth + 1) for item in value), depth, "[]")
    return repr(value)


# ── types ───────────────────────────────────────────────────────────────────────────


def _arguments(tool: CatalogueTool) -> str:
    name = f"{tool.identifier}Arguments"
    shape = shape_of(tool.input_schema)
    if not isinstance(shape, ObjectShape):
        return f"{name}: TypeAlias = dict[str, Any]"
    # Not a class: its fields could hide the names of types, and a field may have any name.
    return f"{name} = TypedDict(\n    {python_string(name)},\n    {_fields(shape.fields)},\n)"


def _fields(fields: Fields) -> str:
    written = (
        f"{python_string(name)}: {_type(shape) if needed else f'NotRequired[{_type(shape)}]'}"
        for name, (shape, needed, _) in fields.items()
    )
    return _lines(written, 1, "{}")


def _type(shape: Shape) -> str:
    match shape:
        case ScalarShape(kind):
            return _SCALARS[kind]
        case LiteralShape(values):
            return f"Literal[{', '.join(_value(value, 0) for value in values)}]"
        case ListShape(item):
            return f"list[{_type(item)}]"
        case UnionShape(shapes):
            # A set of the types' names would have no order.
            return " | ".join(dict.fromkeys(map(_type, shapes)))
        case ObjectShape():
            return "dict[str, Any]"
    return "Any" if shape is ANYTHING else "dict[str, Any]"
