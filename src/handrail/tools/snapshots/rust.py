"""The catalogue as a Rust module: an enum of names, the rest as constants. It needs no crate."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from handrail.tools.snapshots.catalogue import (
    CatalogueModel,
    CatalogueTool,
    NodeCatalogue,
    ascii_letter,
    ascii_only,
    bracketed,
)

_HEAD = """\
//! The tools and models of a node. Written by `handrail sync-capabilities`; do not change it here.

#![allow(dead_code)]

use core::fmt;
use core::str::FromStr;"""
_ENUM = """\
/// The name of a tool.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ToolName {variants}

impl ToolName {{
    pub const fn as_str(self) -> &'static str {{
        match self {names}
    }}
}}

impl fmt::Display for ToolName {{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {{
        formatter.write_str(self.as_str())
    }}
}}

/// What a text is that names no tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownTool;

impl fmt::Display for UnknownTool {{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {{
        formatter.write_str("there is no tool of that name")
    }}
}}

impl std::error::Error for UnknownTool {{}}

impl FromStr for ToolName {{
    type Err = UnknownTool;

    fn from_str(name: &str) -> Result<Self, UnknownTool> {{
        match name {{
{parsed}            _ => Err(UnknownTool),
        }}
    }}
}}"""
_STRUCTS = """\
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tool {
    pub name: ToolName,
    pub scoped_name: Option<&'static str>,
    pub description: Option<&'static str>,
    /// JSON.
    pub input_schema: &'static str,
    /// JSON.
    pub returns_schema: Option<&'static str>,
    pub side_effects: Option<bool>,
    pub idempotent: Option<bool>,
    pub timeout_ms: Option<u64>,
    pub tags: &'static [&'static str],
    /// The models that may call it; `None` is every model that calls tools.
    pub models: Option<&'static [&'static str]>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    pub id: &'static str,
    pub provider: Option<&'static str>,
    pub model: Option<&'static str>,
    pub supports_tool_calls: bool,
    pub tools: &'static [ToolName],
}"""
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def rust_source(catalogue: NodeCatalogue) -> str:
    """The catalogue as a Rust module."""
    names = {tool.name: f"ToolName::{tool.identifier}" for tool in catalogue.tools}
    tools = [_tool(tool, names) for tool in catalogue.tools]
    models = [_model(model, names) for model in catalogue.models]
    ids = [rust_string(model.id) for model in catalogue.models]
    parts = [
        _HEAD,
        _ENUM.format(
            variants=_block(map(_variant, catalogue.tools), 0),
            names=_block((f"{variant} => {rust_string(name)},\n" for name, variant in names.items()), 2),
            parsed="".join(f"            {rust_string(name)} => Ok({variant}),\n" for name, variant in names.items()),
        ),
        _STRUCTS,
        f"pub const TOOL_NAMES: &[ToolName] = {_slice(names.values())};",
        f"pub const MODEL_IDS: &[&str] = {_slice(ids)};",
        f"pub const TOOLS: &[Tool] = {_slice(tools)};",
        f"pub const MODELS: &[Model] = {_slice(models)};",
    ]
    return "\n\n".join(parts) + "\n"


def rust_string(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(letter) or ascii_letter(letter) for letter in text) + '"'


def _variant(tool: CatalogueTool) -> str:
    about = f"/// {ascii_only(tool.description)}\n    " if tool.description and tool.description.split() else ""
    return f"{about}{tool.identifier},\n"


def _tool(tool: CatalogueTool, names: dict[str, str]) -> str:
    return _struct(
        "Tool",
        name=names[tool.name],
        scoped_name=_option(tool.scoped_name),
        description=_option(tool.description),
        input_schema=_json(tool.input_schema),
        returns_schema="None" if tool.returns_schema is None else f"Some({_json(tool.returns_schema)})",
        side_effects=_option(tool.side_effects),
        idempotent=_option(tool.idempotent),
        timeout_ms=_option(tool.timeout_ms),
        tags=_inline(map(rust_string, tool.tags or ())),
        models="None" if tool.models is None else f"Some({_inline(map(rust_string, tool.models))})",
    )


def _model(model: CatalogueModel, names: dict[str, str]) -> str:
    return _struct(
        "Model",
        id=rust_string(model.id),
        provider=_option(model.provider),
        model=_option(model.model),
        supports_tool_calls=_literal(model.supports_tool_calls),
        tools=_inline(names[name] for name in model.tools or ()),
    )


def _struct(kind: str, /, **fields: str) -> str:
    return f"{kind} {bracketed((f'{field}: {value}' for field, value in fields.items()), 1, '{}', '    ')}"


def _option(value: str | int | None) -> str:
    return "None" if value is None else f"Some({_literal(value)})"


def _literal(value: str | int) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return rust_string(value)
    return str(value)


def _json(value: Any) -> str:
    return rust_string(json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False))


def _inline(written: Iterable[str]) -> str:
    return f"&[{', '.join(written)}]"


def _slice(written: Iterable[str]) -> str:
    return f"&{bracketed(written, 0, '[]', '    ')}"


def _block(lines: Iterable[str], depth: int) -> str:
    inner = "".join("    " * (depth + 1) + line for line in lines)
    return f"{{\n{inner}{'    ' * depth}}}" if inner else "{}"
