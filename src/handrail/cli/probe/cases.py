"""The cases of `handrail probe` as values: what is said, which tools there are, and which calls would be right."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Literal

import msgspec
from msgspec import Struct

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.messages import AssistantMessage, Conversation, InvocationMessage, ResultMessage
from handrail.tools.definition import ToolDefinition
from handrail.tools.registry import RegisteredTools, registered
from handrail.tools.tool import Tool

Kind = Literal["choose", "arguments", "none", "several", "error"]


class ProbeExpectedCall(Struct, frozen=True, forbid_unknown_fields=True):
    tool: str
    arguments: dict[str, list[Any]] | None = None
    """For each argument its right values; None judges only the choice of the tool."""


class SimulatedFailure(Struct, frozen=True, forbid_unknown_fields=True):
    tool: str
    arguments: dict[str, Any]
    error: str


class ProbeCase(Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    kind: Kind
    say: str
    calls: tuple[ProbeExpectedCall, ...] = ()
    before: SimulatedFailure | None = None
    """A call that the model made already, and why it failed."""

    @property
    def conversation(self) -> Conversation:
        said = Conversation().say(self.say)
        if self.before is None:
            return said
        call = ToolCall("call_before", self.before.tool, self.before.arguments)
        failed = ToolResult(call.id, call.name, self.before.error, "failed")
        return said.add(AssistantMessage(stop="tool_calls"), InvocationMessage(call), ResultMessage(failed))


class _ProbeTool(Struct, frozen=True, forbid_unknown_fields=True):
    description: str
    properties: dict[str, dict[str, Any]]
    required: list[str]
    result: str


class ProbeSuite(Struct, frozen=True, forbid_unknown_fields=True):
    tools: dict[str, _ProbeTool]
    case: tuple[ProbeCase, ...]

    def registered(self) -> RegisteredTools:
        """The tools with handlers that do nothing and say what they would."""
        return registered(*(_probe_tool(name, facts) for name, facts in self.tools.items()))


def load_suite() -> ProbeSuite:
    data = files(__package__).joinpath("probe_cases.toml").read_bytes()
    return msgspec.toml.decode(data, type=ProbeSuite)


def _probe_tool(name: str, facts: _ProbeTool) -> Tool:
    async def answer(**arguments: Any) -> str:
        return facts.result

    schema = {
        "type": "object",
        "properties": facts.properties,
        "required": facts.required,
        "additionalProperties": False,
    }
    definition = ToolDefinition(name, facts.description, schema, side_effects=False)
    return Tool(definition, answer, style="arguments", share=False)
