"""The converser's invocables, as `converser-invocables.md` describes them.

from handrail.compat.converser import Ensemble, InvocationsProcessor, Invoker, register_invoker
"""

from __future__ import annotations

from typing import Any

from handrail.compat.converser import mcp_servers
from handrail.compat.converser.conversation import (
    AssistantCanister,
    Canister,
    Content,
    Conversation,
    Converser,
    DocumentCanister,
    InvocationCanister,
    InvocationsProcessor,
    ResultCanister,
    Role,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from handrail.compat.converser.invokers import (
    Arguments,
    Ensemble,
    Invocable,
    Invoker,
    load_ensemble,
    load_invocable,
    load_invoker_descriptors,
    prepare_invocables,
    register_invoker,
)
from handrail.compat.converser.mcp_servers import MCPClient, MCPTool
from handrail.compat.converser.processor import Context
from handrail.core.errors import InvalidArguments as ValidationError, ToolError
from handrail.execute.dedupe.create import (
    DuplicateChecker as Deduplicator,
    ExactDeduplicator,
    create_deduplicator as create_deduplicator,
)
from handrail.tools.schema.validator import Validator

__all__ = [
    "Arguments",
    "AssistantCanister",
    "Canister",
    "Content",
    "Context",
    "Conversation",
    "Converser",
    "Deduplicator",
    "DocumentCanister",
    "Ensemble",
    "ExactDeduplicator",
    "Invocable",
    "InvocationCanister",
    "InvocationsProcessor",
    "Invoker",
    "MCPClient",
    "MCPTool",
    "ResultCanister",
    "Role",
    "SupervisorCanister",
    "TextualContent",
    "ToolExecutionError",
    "UserCanister",
    "ValidationError",
    "create_deduplicator",
    "create_invoker_from_mcp_tool",
    "load_ensemble",
    "load_invocable",
    "load_invoker_descriptors",
    "prepare_invocables",
    "register_invoker",
    "validate_schema",
]


class ToolExecutionError(ToolError):
    """A tool failed and the conversation goes no further. It has the invoker and the arguments."""

    def __init__(self, message: str, invoker: Invoker | None = None, arguments: Arguments | None = None) -> None:
        super().__init__("failed", message)
        self.invoker = invoker
        self.arguments = arguments


def create_invoker_from_mcp_tool(tool: MCPTool, client: MCPClient) -> Invoker:
    """A tool of the server as an invoker, for any ensemble. It works as long as its client is open.

    Raises:
        UsageError: The client does not offer it.
    """
    return Invoker.of(mcp_servers.create_invoker_from_mcp_tool(tool, client))


def validate_schema(arguments: Any, schema: dict[str, Any]) -> None:
    """
    Raises:
        ValidationError: The arguments do not fit the schema; the message names each mistake.
    """
    if problems := Validator(schema, "the arguments").problems(arguments):
        raise ValidationError(problems)
