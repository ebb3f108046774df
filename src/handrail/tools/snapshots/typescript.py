"""The catalogue as a TypeScript module: unions of names, interfaces of arguments, the rest as constant data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from msgspec import to_builtins

from handrail.tools.snapshots.catalogue import CatalogueTool, NodeCatalogue, ascii_only, bracketed
from handrail.tools.snapshots.type_shapes import (
    Fields,
    ListShape,
    LiteralShape,
    MappingShape,
    ObjectShape,
    ScalarShape,
    Shape,
    UnionShape,
    shape_of,
)

_HEAD = "// The tools and models of a node. Written by `handrail sync-capabilities`; do not change it here."
_SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_FIXED = """\
export interface Tool {
  readonly name: ToolName;
  readonly scoped_name?: string;
  readonly description?: string;
  readonly input_schema: Readonly<Record<string, unknown>>;
  readonly returns_schema?: Readonly<Record<string, unknown>>;
  readonly side_effects?: boolean;
  readonly idempotent?: boolean;
  readonly timeout_ms?: number;
  readonly tags?: readonly string[];
  readonly models?: readonly string[];
}

export interface Model {
  readonly id: ModelId;
  readonly provider?: string;
  readonly model?: string;
  readonly supports_tool_calls: boolean;
  readonly tools: readonly ToolName[];
}"""
_TAG = re.compile(r"(^|\s)@")


def typescript_source(catalogue: NodeCatalogue) -> str:
    """The catalogue as a TypeScript module."""
    names = [tool.name for tool in catalogue.tools]
    ids = [model.id for model in catalogue.models]
    models = [{"id": model["id"], "supports_tool_calls": True, **model} for model in to_builtins(catalogue.models)]
    parts = [
        _HEAD,
        f"export type ToolName ={_union(names)};\nexport type ModelId ={_union(ids)};",
        *map(_interface, catalogue.tools),
        _by_tool(catalogue.tools),
        _FIXED,
        f"export const toolNames: readonly ToolName[] = {_value(names, 0)};\n"
        f"export const modelIds: readonly ModelId[] = {_value(ids, 0)};",
        f"export const tools = {_entries(to_builtins(catalogue.tools))} as const satisfies readonly Tool[];",
        f"export const models = {_entries(models)} as const satisfies readonly Model[];",
    ]
    return "\n\n".join(parts) + "\n"


def typescript_string(text: str) -> str:
    """JSON's own spelling in ASCII, which means the same here."""
    return json.dumps(text)


def _union(names: list[str]) -> str:
    if not names:
        return " never"
    return "".join(f"\n  | {typescript_string(name)}" for name in names)


def _entries(entries: Iterable[dict[str, Any]]) -> str:
    """A list of objects whose fields stay in their order."""
    written = (_lines((f"{key}: {_value(item, 2)}" for key, item in entry.items()), 1, "{}") for entry in entries)
    return _lines(written, 0, "[]")


def _lines(items: Iterable[str], depth: int, brackets: str) -> str:
    return bracketed(items, depth, brackets, "  ")


def _value(value: Any, depth: int) -> str:
    match value:
        case dict():
            pairs = (f"{_key(key)}: {_value(item, depth + 1)}" for key, item in sorted(value.items()))
            return _lines(pairs, depth, "{}")
        case list() | tuple():
            return _lines((_value(item, depth + 1) for item in value), depth, "[]")
    return json.dumps(value, allow_nan=False)


def _key(key: str) -> str:
    # Written plainly, this one would set the prototype and not be a key.
    return '["__proto__"]' if key == "__proto__" else typescript_string(key)


# ── types ───────────────────────────────────────────────────────────────────────────


def _interface(tool: CatalogueTool) -> str:
    name, shape = f"{tool.identifier}Arguments", shape_of(tool.input_schema)
    about = _comment(tool.description or "", "")
    if not isinstance(shape, ObjectShape):
        return f"{about}export type {name} = Record<string, unknown>;"
    return f"{about}export interface {name} {_fields(shape.fields, 0)}"


def _by_tool(tools: Iterable[CatalogueTool]) -> str:
    lines = "".join(f"  {typescript_string(tool.name)}: {tool.identifier}Arguments;\n" for tool in tools)
    return f"export interface ArgumentsByTool {{\n{lines}}}" if lines else "export interface ArgumentsByTool {}"


def _fields(fields: Fields, depth: int) -> str:
    inner = "  " * (depth + 1)
    lines = "".join(
        f"{_comment(about, inner)}{inner}{typescript_string(name)}{'' if needed else '?'}: {_type(shape, depth + 1)};\n"
        for name, (shape, needed, about) in fields.items()
    )
    return f"{{\n{lines}{'  ' * depth}}}" if lines else "{}"


def _comment(text: str, indent: str) -> str:
    """What a person reads in an editor. It can neither end itself nor give the compiler orders."""
    words = _TAG.sub(r"\1\\@", ascii_only(text)).replace("*/", "*\\/")
    return f"{indent}/** {words} */\n" if words else ""


def _type(shape: Shape, depth: int) -> str:
    match shape:
        case ScalarShape(kind):
            return _SCALARS[kind]
        case LiteralShape(values):
            return " | ".join(map(json.dumps, values))
        case ListShape(item):
            inner = _type(item, depth)
            return f"({inner})[]" if isinstance(item, UnionShape | LiteralShape) else f"{inner}[]"
        case UnionShape(shapes):
            return " | ".join(dict.fromkeys(_type(each, depth) for each in shapes))
        case ObjectShape(fields):
            return _fields(fields, depth) if fields else "Record<string, never>"
        case MappingShape():
            return "Record<string, unknown>"
    return "unknown"
