"""nrv's tool calls, as `nrv-llm-tool-calls.md` describes them, in Python.

    from handrail.compat.nrv import ToolDescriptor, ToolInvocation, ToolRegistry, ToolResult, client

A handler takes one `ToolInvocation`, whatever its parameter is called, and returns a `ToolResult`, a plain value, or
a `ToolError`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import msgspec

from handrail.compat.nrv_client import (
    Client,
    Completed,
    Error,
    Metrics,
    Started,
    Token,
    ToolCall as ToolCallStreamEvent,
    ToolResult as ToolResultStreamEvent,
    client,
)
from handrail.core.calls import Attachment, Output as ToolResult
from handrail.core.errors import DuplicateTool, InvalidSchema, ToolError
from handrail.core.invocation import Invocation as ToolInvocation
from handrail.tools import registry
from handrail.tools.definition import ToolDefinition
from handrail.tools.registry import RegisteredTools

__all__ = [
    "Attachment",
    "Client",
    "Completed",
    "DuplicateTool",
    "Error",
    "InvalidSchema",
    "Metrics",
    "RegisteredTools",
    "Started",
    "Token",
    "ToolCallStreamEvent",
    "ToolDescriptor",
    "ToolError",
    "ToolHandler",
    "ToolInvocation",
    "ToolRegistry",
    "ToolResult",
    "ToolResultStreamEvent",
    "client",
    "create_tool_registry",
]

ToolHandler = Callable[[ToolInvocation], Awaitable[Any]]


@dataclass(frozen=True)
class ToolDescriptor:
    """What the orchestrator and the model know of a tool."""

    name: str
    """In kebab-case."""
    description: str
    input_schema: dict[str, Any]
    returns: dict[str, Any] | None = None
    timeout_ms: int | None = None

    @property
    def definition(self) -> ToolDefinition:
        return ToolDefinition.from_dict({key: value for key, value in asdict(self).items() if value is not None})

    def to_json(self) -> str:
        """JSON in the spelling of JS/TS: `inputSchema`, `timeoutMs`. What is not set is left out."""
        spelled = {"input_schema": "inputSchema", "timeout_ms": "timeoutMs"}
        fields = {spelled.get(key, key): value for key, value in asdict(self).items() if value is not None}
        return msgspec.json.encode(fields).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> ToolDescriptor:
        """Read JSON in the spelling of JS/TS or of Rust.

        Raises:
            InvalidDefinition: A key is unknown or missing.
        """
        read = ToolDefinition.from_dict(msgspec.json.decode(text))
        return cls(read.name, read.description, read.input_schema, read.output_schema, read.timeout_ms)


class ToolRegistry(registry.ToolRegistry):
    """`handrail.ToolRegistry` that holds names to kebab-case and calls every handler with one `ToolInvocation`."""

    def __init__(self) -> None:
        super().__init__(names="kebab")

    @classmethod
    def new(cls) -> Self:
        return cls()

    def register(  # type: ignore[override]  # a descriptor and its handler, and nothing else
        self, descriptor: ToolDescriptor | ToolDefinition | Mapping[str, Any], handler: ToolHandler
    ) -> Self:
        """
        Raises:
            DuplicateTool: The name is taken.
            InvalidDefinition: The name is not kebab-case.
            InvalidSchema: A schema is wrong.
        """
        what = descriptor.definition if isinstance(descriptor, ToolDescriptor) else descriptor
        return super().register(what, handler, style="invocation")


def create_tool_registry() -> ToolRegistry:
    """`createToolRegistry()` of JS/TS."""
    return ToolRegistry()
