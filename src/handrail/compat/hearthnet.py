"""HearthNet's tool calls, as `hearthnet-tool-calls.md` describes them.

    from handrail.compat.hearthnet import CapabilityBus, ToolCall, ToolDefinition, ToolExecutor, ToolResult

`ToolDefinition` and `ToolResult` have exactly the document's fields; `ToolExecutor` takes and gives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from handrail.core import calls
from handrail.core.calls import ToolCall
from handrail.core.errors import ToolError
from handrail.node.bus.interfaces import Bus
from handrail.node.bus.request import RouteRequest
from handrail.node.capability_bus import CapabilityBus
from handrail.node.chat import tool_executor
from handrail.node.services import llm
from handrail.tools import definition as definitions

__all__ = [
    "CapabilityBus",
    "Config",
    "LlmConfig",
    "LlmService",
    "RouteRequest",
    "ToolCall",
    "ToolDefinition",
    "ToolError",
    "ToolExecutor",
    "ToolResult",
]


@dataclass(frozen=True)
class ToolDefinition:
    """A tool that the caller offers to the model."""

    name: str
    description: str
    parameters_schema: dict[str, Any]
    bound_capability: str | None = None
    bound_version: tuple[int, int] | None = None
    side_effects: bool = False

    @property
    def definition(self) -> definitions.ToolDefinition:
        """The definition that the runtime uses."""
        bound = self.bound_capability
        return definitions.ToolDefinition(
            name=self.name,
            description=self.description,
            input_schema=self.parameters_schema,
            binding=None if bound is None else definitions.Binding(bound, self.bound_version or (1, 0)),
            side_effects=self.side_effects,
        )


@dataclass(frozen=True)
class ToolResult:
    """The result of a call, for the model."""

    tool_call_id: str
    name: str
    content: Any
    """Text, or a value that becomes JSON."""
    is_error: bool = False

    @classmethod
    def of(cls, result: calls.ToolResult | ToolResult) -> ToolResult:
        return cls(result.tool_call_id, result.name, result.content, result.is_error)


class ToolExecutor(tool_executor.ToolExecutor):
    """`handrail.ToolExecutor` for the document's definitions and results."""

    def __init__(self, bus: Bus, tools: Iterable[Any], **options: Any) -> None:
        """Takes the document's definitions beside everything that `handrail.ToolExecutor` takes."""
        super().__init__(bus, [_definition(each) for each in tools], **options)

    async def dispatch(self, call: ToolCall) -> ToolResult:  # type: ignore[override]  # the document's result
        """Run one call. What goes wrong is in the result.

        Raises:
            ToolError: It changes something, and nobody has confirmed it (`requires_confirmation`).
        """
        return ToolResult.of(await super().dispatch(call))

    async def dispatch_confirmed(self, call: ToolCall) -> ToolResult:  # type: ignore[override]
        """Run a call that a person has confirmed: this id with these arguments, once."""
        return ToolResult.of(await super().dispatch_confirmed(call))


def _definition(tool: Any) -> Any:
    return tool.definition if isinstance(tool, ToolDefinition) else tool


class LlmService(llm.LlmService):
    """`LlmService` with the document's name for the handler of `llm.tools.call@1.0`."""

    async def handle_tools_call(self, req: RouteRequest) -> dict[str, Any]:
        """Call `target_capability` with `target_body`, checked against its request schema, and return its result."""
        return await self.tools_call(req)


@dataclass
class LlmConfig:
    """The six settings, for `ToolExecutor.from_config(bus, config.llm)`."""

    tools_enabled: bool = True
    tools_max_iterations: int = 6
    tools_per_tool_timeout_seconds: float = 30
    tools_max_parallel: int = 4
    tools_default_set: Sequence[str] = ("search_corpus", "list_corpora", "translate", "list_marketplace")
    tools_require_confirmation_for_side_effects: bool = True


@dataclass
class Config:
    llm: LlmConfig = field(default_factory=LlmConfig)
