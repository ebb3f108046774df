"""The three files as people read them. A change of a byte here is a change for everybody who has checked them in."""

from __future__ import annotations

from inline_snapshot import snapshot

from handrail.tools.snapshots import python, rust, typescript
from tests.tools.snapshots.hard_catalogues import TWO


def test_the_python_is_as_people_read_it() -> None:
    assert python.python_source(TWO) == snapshot('''\
"""The tools and models of a node. Written by `handrail sync-capabilities`; do not change it here."""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict

ToolName: TypeAlias = Literal[
    "add",
    "read-file",
]
ModelId: TypeAlias = Literal[
    "fast",
    "local",
]

AddArguments: TypeAlias = dict[str, Any]

ReadFileArguments = TypedDict(
    "ReadFileArguments",
    {
        "encoding": NotRequired[Literal["utf-8", "latin-1"]],
        "from": NotRequired[int],
        "path": str,
    },
)


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
    tools: tuple[ToolName, ...]


TOOL_NAMES: Final[tuple[ToolName, ...]] = (
    "add",
    "read-file",
)
MODEL_IDS: Final[tuple[ModelId, ...]] = (
    "fast",
    "local",
)

TOOLS: Final[tuple[Tool, ...]] = (
    {
        "name": "add",
        "input_schema": {
            "type": "object",
        },
        "models": ("gpt",),
    },
    {
        "name": "read-file",
        "scoped_name": "io:read-file",
        "description": "Read a file.",
        "input_schema": {
            "properties": {
                "encoding": {
                    "enum": [
                        "utf-8",
                        "latin-1",
                    ],
                },
                "from": {
                    "default": 0,
                    "type": "integer",
                },
                "path": {
                    "description": "Where it is.",
                    "type": "string",
                },
            },
            "required": [
                "path",
            ],
            "type": "object",
        },
        "side_effects": False,
        "timeout_ms": 5000,
    },
)

MODELS: Final[tuple[Model, ...]] = (
    {
        "id": "fast",
        "supports_tool_calls": True,
        "provider": "openai",
        "model": "gpt",
        "tools": ("add", "read-file"),
    },
    {
        "id": "local",
        "supports_tool_calls": True,
        "tools": ("read-file",),
    },
)
''')


def test_the_typescript_is_as_people_read_it() -> None:
    assert typescript.typescript_source(TWO) == snapshot("""\
// The tools and models of a node. Written by `handrail sync-capabilities`; do not change it here.

export type ToolName =
  | "add"
  | "read-file";
export type ModelId =
  | "fast"
  | "local";

export type AddArguments = Record<string, unknown>;

/** Read a file. */
export interface ReadFileArguments {
  "encoding"?: "utf-8" | "latin-1";
  "from"?: number;
  /** Where it is. */
  "path": string;
}

export interface ArgumentsByTool {
  "add": AddArguments;
  "read-file": ReadFileArguments;
}

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
}

export const toolNames: readonly ToolName[] = [
  "add",
  "read-file",
];
export const modelIds: readonly ModelId[] = [
  "fast",
  "local",
];

export const tools = [
  {
    name: "add",
    input_schema: {
      "type": "object",
    },
    models: [
      "gpt",
    ],
  },
  {
    name: "read-file",
    scoped_name: "io:read-file",
    description: "Read a file.",
    input_schema: {
      "properties": {
        "encoding": {
          "enum": [
            "utf-8",
            "latin-1",
          ],
        },
        "from": {
          "default": 0,
          "type": "integer",
        },
        "path": {
          "description": "Where it is.",
          "type": "string",
        },
      },
      "required": [
        "path",
      ],
      "type": "object",
    },
    side_effects: false,
    timeout_ms: 5000,
  },
] as const satisfies readonly Tool[];

export const models = [
  {
    id: "fast",
    supports_tool_calls: true,
    provider: "openai",
    model: "gpt",
    tools: [
      "add",
      "read-file",
    ],
  },
  {
    id: "local",
    supports_tool_calls: true,
    tools: [
      "read-file",
    ],
  },
] as const satisfies readonly Model[];
""")


def test_the_rust_is_as_people_read_it() -> None:
    assert rust.rust_source(TWO) == snapshot("""\
//! The tools and models of a node. Written by `handrail sync-capabilities`; do not change it here.

#![allow(dead_code)]

use core::fmt;
use core::str::FromStr;

/// The name of a tool.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ToolName {
    Add,
    /// Read a file.
    ReadFile,
}

impl ToolName {
    pub const fn as_str(self) -> &'static str {
        match self {
            ToolName::Add => "add",
            ToolName::ReadFile => "read-file",
        }
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What a text is that names no tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownTool;

impl fmt::Display for UnknownTool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("there is no tool of that name")
    }
}

impl std::error::Error for UnknownTool {}

impl FromStr for ToolName {
    type Err = UnknownTool;

    fn from_str(name: &str) -> Result<Self, UnknownTool> {
        match name {
            "add" => Ok(ToolName::Add),
            "read-file" => Ok(ToolName::ReadFile),
            _ => Err(UnknownTool),
        }
    }
}

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
}

pub const TOOL_NAMES: &[ToolName] = &[
    ToolName::Add,
    ToolName::ReadFile,
];

pub const MODEL_IDS: &[&str] = &[
    "fast",
    "local",
];

pub const TOOLS: &[Tool] = &[
    Tool {
        name: ToolName::Add,
        scoped_name: None,
        description: None,
        input_schema: "{\\"type\\":\\"object\\"}",
        returns_schema: None,
        side_effects: None,
        idempotent: None,
        timeout_ms: None,
        tags: &[],
        models: Some(&["gpt"]),
    },
    Tool {
        name: ToolName::ReadFile,
        scoped_name: Some("io:read-file"),
        description: Some("Read a file."),
        input_schema: "{\\"properties\\":{\\"encoding\\":{\\"enum\\":[\\"utf-8\\",\\"latin-1\\"]},\\"from\\":{\\"default\\":0,\\"type\\":\\"integer\\"},\\"path\\":{\\"description\\":\\"Where it is.\\",\\"type\\":\\"string\\"}},\\"required\\":[\\"path\\"],\\"type\\":\\"object\\"}",
        returns_schema: None,
        side_effects: Some(false),
        idempotent: None,
        timeout_ms: Some(5000),
        tags: &[],
        models: None,
    },
];

pub const MODELS: &[Model] = &[
    Model {
        id: "fast",
        provider: Some("openai"),
        model: Some("gpt"),
        supports_tool_calls: true,
        tools: &[ToolName::Add, ToolName::ReadFile],
    },
    Model {
        id: "local",
        provider: None,
        model: None,
        supports_tool_calls: true,
        tools: &[ToolName::ReadFile],
    },
];
""")  # noqa: E501 - a schema is one line of JSON there
